//! How one parameter is declared in C and in Rust, and how an entry point converts it.

use super::Abi;
use crate::Result;
use crate::spec::{Dir, Kind, Param, Proc, Spec};

/// A parameter of an entry point.
pub struct Converted {
    /// Name, in C and in the entry point.
    pub name: String,
    /// C declaration, name included.
    pub c: String,
    /// Type of the Rust entry point's parameter; `None` for `...`.
    pub rust: Option<String>,
    /// Type of the engine function's parameter, without spaces.
    pub engine: &'static str,
    /// Expression of that type.
    pub expr: String,
}

/// What a parameter is converted in.
pub struct Context<'a> {
    /// The tables.
    pub spec: &'a Spec,
    /// The procedure.
    pub proc: &'a Proc,
    /// Whether this is its `_c` variant.
    pub large: bool,
    /// The ABI.
    pub abi: Abi,
}

impl Context<'_> {
    /// C type of a parameter of this kind, without pointer.
    fn base(&self, kind_name: &str, kind: &Kind, func: Option<&str>) -> String {
        if let Some(func) = func {
            let suffix = if self.large && kind.large.is_some() {
                "_c"
            } else {
                ""
            };
            return format!("{func}{suffix}");
        }
        let extra = self.spec.overlay.extra_large.contains(&self.proc.name);
        if kind_name == "XFER_NUM_ELEM_NNI" && extra && !self.large && !self.abi.is_mpich() {
            return "int".into();
        }
        match &kind.large {
            Some(large) if self.large => large.clone(),
            _ => kind.c.clone(),
        }
    }

    /// Whether what the procedure gives back may be NULL, where nobody wants it: so do those of the tool interface that describe.
    fn has_optional_outs(&self) -> bool {
        self.proc.chapter == "tool" && self.proc.name.ends_with("_get_info")
    }

    /// Converts a parameter.
    pub fn param(&self, p: &Param) -> Result<Converted> {
        let kind = self.spec.kind(&p.kind)?;
        let base = self.base(&p.kind, kind, p.func.as_deref());
        let forms = &self.spec.overlay.forms;
        let key = format!("{}.{}", self.proc.name, p.name);
        let form = forms.get(&key).map_or(kind.form.as_str(), String::as_str);
        let name = match p.name.as_str() {
            "in" | "type" | "fn" | "match" => format!("{}_", p.name),
            n => n.to_string(),
        };
        let array = p.array.is_some()
            && !matches!(kind.form.as_str(), "text" | "strings" | "argv" | "buffer");
        let pointer = p.pointer.unwrap_or(p.dir != Dir::In);
        let optional = self.has_optional_outs() && p.dir != Dir::In;
        let convert = Convert {
            at: self,
            p,
            kind,
            name: &name,
            key: &key,
            base: &base,
            pointer,
            optional,
        };
        let (engine, expr) = if array {
            convert.array(form)?
        } else {
            convert.scalar(form)?
        };
        Ok(Converted {
            c: convert.c(array),
            rust: (form != "varargs").then(|| convert.rust(array)),
            engine,
            expr,
            name,
        })
    }
}

struct Convert<'a> {
    at: &'a Context<'a>,
    p: &'a Param,
    kind: &'a Kind,
    name: &'a str,
    key: &'a str,
    base: &'a str,
    pointer: bool,
    /// Whether NULL says that nobody wants it.
    optional: bool,
}

impl Convert<'_> {
    fn c(&self, array: bool) -> String {
        let Convert {
            p,
            name,
            base,
            pointer,
            ..
        } = self;
        let constant = if p.constant { "const " } else { "" };
        match (self.kind.form.as_str(), p.kind.as_str()) {
            ("varargs", _) => "...".into(),
            ("buffer" | "baseptr" | "detached" | "attribute", _) => {
                format!("{constant}void *{name}")
            }
            ("text", _) => format!("{constant}char *{name}"),
            ("strings", "STRING_ARRAY") => format!("char *{name}[]"),
            ("strings", _) => format!("char **{name}[]"),
            ("argv", _) if *pointer && p.pointer != Some(false) => format!("char ***{name}"),
            ("argv", _) => format!("char *{name}[]"),
            ("function", "FUNCTION" | "POLYFUNCTION") => format!("{base} *{name}"),
            ("word", _) if base == &"void" => format!("void *{name}"),
            _ if array && p.array.as_deref() == Some("n*3") => format!("int {name}[][3]"),
            // A pointer: MPI_STATUSES_IGNORE as an array of unknown size is a warning of the compiler.
            _ if array && self.kind.form == "status" => format!("{constant}{base} *{name}"),
            _ if array => format!("{constant}{base} {name}[]"),
            // The standard's table does not say that these are pointers.
            ("fortran", _) if p.constant => format!("{constant}{base} *{name}"),
            _ if *pointer || self.kind.form == "status" => format!("{constant}{base} *{name}"),
            _ => format!("{constant}{base} {name}"),
        }
    }

    /// Rust's name of a C type.
    fn rust_base(&self) -> &str {
        match self.base {
            "int" | "MPI_Fint" | "MPI_T_cb_safety" | "MPI_T_source_order" => "i32",
            "MPI_Aint" | "MPI_Offset" | "MPI_Count" => "i64",
            "char" => "c_char",
            "void" => "c_void",
            "MPI_Status" => "CStatus",
            _ if self.kind.form == "function" || self.kind.form == "word" => "usize",
            handle => handle.strip_prefix("MPI_").unwrap_or(handle),
        }
    }

    fn rust(&self, array: bool) -> String {
        let base = self.rust_base();
        let star = if self.p.constant || (array && self.p.dir == Dir::In) {
            "*const"
        } else {
            "*mut"
        };
        match self.kind.form.as_str() {
            "buffer" | "baseptr" | "detached" | "attribute" | "text" => format!("{star} {base}"),
            "strings" | "argv" => "*mut c_void".into(),
            "function" => "usize".into(),
            "word" if self.base == "void" => "usize".into(),
            "status" => format!("{star} {base}"),
            _ if array || self.pointer => format!("{star} {base}"),
            _ => base.into(),
        }
    }

    fn is_wide(&self) -> bool {
        self.rust_base() == "i64"
    }

    fn family(&self) -> Option<&str> {
        self.kind
            .family
            .as_deref()
            .filter(|_| self.at.abi.is_mpich())
    }

    fn nullable(&self) -> bool {
        self.p.root_only || self.at.spec.overlay.nullable.iter().any(|k| k == self.key)
    }

    fn negative(&self, expr: String) -> String {
        let Some(class) = &self.kind.negative else {
            return expr;
        };
        if self.p.root_only {
            return expr;
        }
        let name = self.name;
        // With MPI_IN_PLACE the count that goes with that buffer is ignored.
        let buffer = name
            .strip_suffix("count")
            .filter(|s| matches!(*s, "send" | "recv"));
        let both = |b: &str| self.at.proc.params.iter().any(|p| p.name == b);
        match buffer {
            Some(side) if both("sendbuf") && both("recvbuf") => {
                format!("count_beside(user_buffer({side}buf), {expr}, \"{name}\")?")
            }
            _ => format!("non_negative({expr}, \"{name}\", consts::{class})?"),
        }
    }

    fn scalar(&self, form: &str) -> Result<(&'static str, String)> {
        let (engine, expr) = self.needed(form)?;
        let name = self.name;
        let expr = match (self.optional, form) {
            (false, _) => expr,
            (true, "text") => {
                let room = self.room()?;
                format!("text_out_or_null({name}, {room})")
            }
            (true, _) => expr.replacen(
                &format!("({name},"),
                &format!("(wanted({name}, &mut unwanted({name})),"),
                1,
            ),
        };
        Ok((engine, expr))
    }

    fn needed(&self, form: &str) -> Result<(&'static str, String)> {
        let name = self.name;
        let dir = match self.p.dir {
            Dir::In if self.pointer => Dir::InOut,
            dir => dir,
        };
        Ok(match (form, dir) {
            ("buffer", _) => ("UserBuf", format!("user_buffer({name})")),
            ("attribute", Dir::In) => ("usize", format!("{name} as usize")),
            ("attribute", _) => ("UserBuf", format!("buffer_out({name}, \"{name}\")?")),
            ("address", _) => ("UserBuf", format!("plain_address({name})")),
            ("detached", _) if self.at.abi.is_mpich() => (
                "&mutusize",
                format!("&mut *detached_out({name}, \"{name}\")?"),
            ),
            ("baseptr" | "detached", _) => ("&mutusize", format!("word_out({name}, \"{name}\")?")),
            ("word", Dir::In) => ("usize", name.into()),
            ("word", _) => ("&mutusize", format!("word_out({name}, \"{name}\")?")),
            ("function", _) => ("UserFn", format!("callback({name})")),
            ("strings" | "argv", _) => ("usize", format!("{name} as usize")),
            ("argc", _) if self.pointer => ("usize", format!("{name} as usize")),
            ("argc" | "untranslated", _) => ("i32", name.into()),
            ("text", Dir::In) if self.nullable() => ("Text", format!("text_or_null({name})")),
            ("text", Dir::In) => ("Text", format!("text_in({name}, \"{name}\")?")),
            ("text", _) => {
                let room = self.room()?;
                ("TextOut", format!("text_out({name}, {room}, \"{name}\")?"))
            }
            ("logical", Dir::In) => ("bool", format!("{name} != 0")),
            ("logical", _) => ("&mutbool", format!("&mut *bool_out({name}, \"{name}\")?")),
            ("handle", Dir::In) => ("Handle", format!("{name}.neutral()")),
            ("handle", Dir::Out) => (
                "&mutHandle",
                format!("&mut *handle_out({name}, \"{name}\")?"),
            ),
            ("handle", _) => (
                "&mutHandle",
                format!("&mut *handle_inout({name}, \"{name}\")?"),
            ),
            ("status", _) if self.p.dir == Dir::In => {
                ("&Status", format!("&status_in({name}, \"{name}\")?"))
            }
            ("status", Dir::Out) => ("Option<&mutStatus>", format!("status_out({name}).wanted()")),
            ("status", _) => (
                "&mutStatus",
                format!("status_inout({name}, \"{name}\")?.value()"),
            ),
            ("int" | "wide", Dir::In) => self.number_in(form),
            ("int" | "wide", _) => self.number_out(form, dir),
            ("none" | "varargs" | "fortran", _) => ("?", String::new()),
            (other, _) => return Err(format!("spec: {}: no form `{other}`", self.key)),
        })
    }

    fn number_in(&self, form: &str) -> (&'static str, String) {
        let name = self.name;
        let value = match self.family() {
            Some(family) => format!("values::{family}_in({name})"),
            None => name.to_string(),
        };
        match form {
            "int" => ("i32", self.negative(value)),
            _ if self.is_wide() => ("i64", self.negative(value)),
            _ => ("i64", self.negative(format!("{value} as i64"))),
        }
    }

    fn number_out(&self, form: &str, dir: Dir) -> (&'static str, String) {
        let name = self.name;
        match (form, self.family().filter(|f| *f != "offset"), dir) {
            ("int", Some(f), Dir::Out) => (
                "&muti32",
                format!("&mut *mapped_out({name}, \"{name}\", values::{f}_out)?"),
            ),
            ("int", Some(f), _) => (
                "&muti32",
                format!("&mut *mapped_inout({name}, \"{name}\", values::{f}_in, values::{f}_out)?"),
            ),
            ("int", None, _) => ("&muti32", format!("int_out({name}, \"{name}\")?")),
            _ if self.is_wide() => ("&muti64", format!("long_out({name}, \"{name}\")?")),
            (_, _, Dir::Out) => ("&muti64", format!("&mut *narrow_out({name}, \"{name}\")?")),
            _ => (
                "&muti64",
                format!("&mut *narrow_inout({name}, \"{name}\")?"),
            ),
        }
    }

    /// The expression for the length of an array, where a parameter says it.
    fn length(&self) -> Option<String> {
        let name = self.p.array.as_deref()?.split('*').next()?;
        if self.nullable() {
            return None;
        }
        let p = self.at.proc.params.iter().find(|p| p.name == name)?;
        (p.dir == Dir::In && p.array.is_none()).then(|| name.to_string())
    }

    fn array(&self, form: &str) -> Result<(&'static str, String)> {
        let name = self.name;
        let length = self.length();
        Ok(match form {
            "handle" => {
                let n = length.unwrap_or("-1i32".into());
                ("Handles", format!("handle_array({name}, {n}, \"{name}\")?"))
            }
            "status" => ("Statuses", format!("status_array({name})")),
            "weights" => ("Ints", format!("weight_array({name})")),
            "mapped" if self.at.abi.is_mpich() => {
                let family = self.kind.family.as_deref().unwrap_or_default();
                let n = length.ok_or_else(|| format!("spec: {}: no length", self.key))?;
                let (pointer, maps) = match self.p.dir {
                    Dir::In => ("mapped_array", format!("values::{family}_in")),
                    _ => ("mapped_array_out", format!("values::{family}_out")),
                };
                (
                    "Ints",
                    format!("{pointer}({name}, {n}, \"{name}\", {maps})?.ints()"),
                )
            }
            "dargs" if self.at.abi.is_mpich() => {
                let length = length.ok_or_else(|| format!("spec: {}: no length", self.key))?;
                (
                    "Ints",
                    format!("dargs_array({name}, {length}, \"{name}\")?.ints()"),
                )
            }
            "contents" if self.at.abi.is_mpich() => {
                let length = length.ok_or_else(|| format!("spec: {}: no length", self.key))?;
                (
                    "Ints",
                    format!("contents_out(e, datatype.neutral(), {name}, {length})?.ints()"),
                )
            }
            "int" | "wide" | "logical" | "mapped" | "contents" | "dargs" => {
                let width = if self.is_wide() { "wide" } else { "narrow" };
                match length {
                    Some(n) => ("Ints", format!("{width}_of({name}, {n}, \"{name}\")?")),
                    None => ("Ints", format!("{width}({name})")),
                }
            }
            other => return Err(format!("spec: {}: no array form `{other}`", self.key)),
        })
    }

    fn room(&self) -> Result<String> {
        let overlay = &self.at.spec.overlay.room;
        if let Some(room) = overlay.get(self.key) {
            return Ok(room.clone());
        }
        let length = format!("{}_len", self.name);
        match self.at.proc.params.iter().any(|p| p.name == length) {
            true => Ok(format!("room_at({length})")),
            false => Err(format!("spec/overlay.toml: [room] lacks {}", self.key)),
        }
    }
}
