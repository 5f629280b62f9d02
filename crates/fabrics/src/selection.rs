//! Which fabrics may be used: `YAMABIKO_FABRICS`.

/// The environment variable that names the fabrics allowed.
pub const VARIABLE: &str = "YAMABIKO_FABRICS";

/// Which fabrics may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Messages to oneself.
    pub own: bool,
    /// Shared memory.
    pub shm: bool,
    /// The network.
    pub tcp: bool,
}

impl Selection {
    /// All that exist.
    pub const ALL: Selection = Selection {
        own: true,
        shm: true,
        tcp: true,
    };

    /// What the environment allows; all where it says nothing. The error is a sentence for a person.
    pub fn from_environment() -> Result<Selection, String> {
        let text = std::env::var_os(VARIABLE).unwrap_or_default();
        Selection::parse(&text.to_string_lossy())
    }

    /// An empty variable is as good as none.
    fn parse(text: &str) -> Result<Selection, String> {
        if text.trim().is_empty() {
            return Ok(Selection::ALL);
        }
        let mut selection = Selection {
            own: false,
            shm: false,
            tcp: false,
        };
        for name in text.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            match name {
                "self" => selection.own = true,
                "shm" => selection.shm = true,
                "tcp" => selection.tcp = true,
                _ => {
                    return Err(format!(
                        "{VARIABLE} names a fabric \"{name}\", and there are self, shm and tcp: list those \
                         to be used, separated by commas"
                    ));
                }
            }
        }
        if !selection.own {
            return Err(format!(
                "{VARIABLE}={text} leaves out \"self\", without which a rank cannot send to itself: \
                 add it to the list"
            ));
        }
        Ok(selection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_or_refused() {
        assert_eq!(Selection::parse("self,shm,tcp"), Ok(Selection::ALL));
        let tcp = Selection::parse(" tcp, self ,").unwrap();
        assert!(tcp.tcp && tcp.own && !tcp.shm);
        assert!(Selection::parse("self,ofi").unwrap_err().contains("ofi"));
        assert!(Selection::parse("shm").unwrap_err().contains("self"));
        assert!(Selection::parse(",").unwrap_err().contains("self"));
        for nothing in ["", " "] {
            assert_eq!(Selection::parse(nothing), Ok(Selection::ALL));
        }
    }
}
