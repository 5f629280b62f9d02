//! What the engine has: the public functions of `crates/engine/src/api`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Result;

/// One function of the engine's API.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Module path below `engine::api`.
    pub module: String,
    /// Types of its parameters, the engine included, without spaces.
    pub params: Vec<String>,
}

/// The functions that are built, by name.
pub struct Built {
    functions: BTreeMap<String, Function>,
}

impl Built {
    /// Reads the files of one folder.
    pub fn scan(folder: &Path) -> Result<Built> {
        let mut functions = BTreeMap::new();
        let read = |e: std::io::Error| format!("{}: {e}", folder.display());
        let modules = std::fs::read_to_string(folder.join("mod.rs")).map_err(read)?;
        let mut paths: Vec<_> = std::fs::read_dir(folder)
            .map_err(read)?
            .flatten()
            .map(|e| e.path())
            .collect();
        paths.sort();
        for path in paths {
            let stem = path
                .file_stem()
                .and_then(|s| s.to_str())
                .unwrap_or_default()
                .to_string();
            if modules
                .lines()
                .any(|line| line == format!("pub mod {stem};"))
            {
                let text = std::fs::read_to_string(&path).map_err(read)?;
                scan_file(&text, &stem, &mut functions);
            }
        }
        Ok(Built { functions })
    }

    /// The function of a procedure (name without `MPI_`), if there is one.
    pub fn get(&self, procedure: &str) -> Option<&Function> {
        self.functions.get(&procedure.to_lowercase())
    }
}

fn scan_file(text: &str, module: &str, functions: &mut BTreeMap<String, Function>) {
    let mut rest = text;
    while let Some(at) = rest.find("\npub fn ") {
        rest = &rest[at + "\npub fn ".len()..];
        let Some(open) = rest.find('(') else { return };
        let name = rest[..open]
            .split('<')
            .next()
            .unwrap_or_default()
            .to_string();
        let Some(close) = matching(&rest[open..]) else {
            return;
        };
        let params = split(&rest[open + 1..open + close])
            .iter()
            .map(|p| p.split_once(':').map_or(p.as_str(), |(_, ty)| ty))
            .map(|ty| ty.chars().filter(|c| !c.is_whitespace()).collect())
            .collect();
        functions.insert(
            name,
            Function {
                module: module.into(),
                params,
            },
        );
    }
}

/// Index of the parenthesis that closes the first one.
fn matching(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

/// Splits parameters at the commas outside brackets.
fn split(params: &str) -> Vec<String> {
    let (mut parts, mut part, mut depth) = (Vec::new(), String::new(), 0);
    for c in params.chars() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    parts.push(part);
    parts.retain(|p| !p.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_types() {
        let mut functions = BTreeMap::new();
        let text = "use x;\n\npub fn wait(e: &Engine, request: &mut Handle,\n    status: Option<&mut \
                    Status>,\n) -> Result<()> {\n    pub fn inner() {}\n}\nfn private() {}\n";
        scan_file(text, "completion", &mut functions);
        let params = ["&Engine", "&mutHandle", "Option<&mutStatus>"]
            .map(String::from)
            .to_vec();
        let expected = Function {
            module: "completion".into(),
            params,
        };
        assert_eq!(
            functions.into_iter().collect::<Vec<_>>(),
            [("wait".to_string(), expected)]
        );
    }
}
