//! How long messages go inside a machine: `YAMABIKO_COPY`.

use shm::Choice;

/// The environment variable that says so.
const VARIABLE: &str = "YAMABIKO_COPY";

/// What the environment says; as is faster, where it says nothing. The error is a sentence for a person.
pub(crate) fn from_environment() -> Result<Choice, String> {
    let text = std::env::var_os(VARIABLE).unwrap_or_default();
    parse(&text.to_string_lossy())
}

fn parse(text: &str) -> Result<Choice, String> {
    match text.trim() {
        "" | "measured" => Ok(Choice::Measured),
        "pipe" => Ok(Choice::Pipe),
        "direct" => Ok(Choice::Direct),
        other => Err(format!(
            "{VARIABLE} is \"{other}\": it may be measured (as is faster), pipe (through shared memory), or direct (read in the \
             sender's memory, where the system allows that)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_words_are_known() {
        assert_eq!(parse(" "), Ok(Choice::Measured));
        assert_eq!(parse("measured"), Ok(Choice::Measured));
        assert_eq!(parse("pipe"), Ok(Choice::Pipe));
        assert_eq!(parse(" direct "), Ok(Choice::Direct));
        assert!(parse("cma").unwrap_err().contains("cma"));
    }
}
