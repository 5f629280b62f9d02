//! The BPF Type Format, as much of it as tells the kernel what a program's functions are: numbers, packets,
//! prototypes, functions; and what the entries of a map are that sockets have. Format: the kernel's `Documentation/bpf/btf.rst`. Who calls it: `kernel`.

use crate::asm::{Function, Kind};

const MAGIC: u16 = 0xeb9f;
const HEADER: u32 = 24;

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;

/// Whether a function is verified alone.
const GLOBAL: u32 = 1;

/// Types that are always there, by their numbers.
const NUMBER: u32 = 1;
const PACKET: u32 = 3;

/// Types of [`describe_storage`]: of what names a socket, and of an entry.
pub(crate) const STORAGE_KEY: u32 = 1;
pub(crate) const STORAGE_VALUE: u32 = 3;

/// What is handed over with a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Btf {
    /// The types.
    pub types: Vec<u8>,
    /// For each function its first instruction and its type.
    pub functions: Vec<u8>,
}

#[derive(Default)]
struct Writer {
    types: Vec<u32>,
    strings: Vec<u8>,
    count: u32,
}

impl Writer {
    /// A type; its number.
    fn add(&mut self, name: &str, kind: u32, count: u32, size: u32, more: &[u32]) -> u32 {
        let name = self.string(name);
        self.types.extend([name, kind << 24 | count, size]);
        self.types.extend(more);
        self.count += 1;
        self.count
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(text.bytes());
        self.strings.push(0);
        at
    }

    fn function(&mut self, function: &Function) -> u32 {
        let (packet, numbers, linkage) = match function.kind {
            Kind::Main => (true, 0, GLOBAL),
            Kind::Global(numbers) => (false, numbers, GLOBAL),
            Kind::Packet(numbers) => (true, numbers, GLOBAL),
            Kind::Callback => (false, 2, 0),
        };
        let mut types = vec![PACKET; usize::from(packet)];
        types.resize(types.len() + numbers, NUMBER);
        let mut args = Vec::new();
        for (i, ty) in types.iter().enumerate() {
            args.extend([self.string(&format!("a{i}")), *ty]);
        }
        let proto = self.add("", FUNC_PROTO, types.len() as u32, NUMBER, &args);
        self.add(&function.name, FUNC, linkage, proto, &[])
    }
}

impl Writer {
    /// All that was added, as the kernel takes it.
    fn finish(self) -> Vec<u8> {
        let length = self.types.len() as u32 * 4;
        let mut types = Vec::new();
        types.extend(MAGIC.to_ne_bytes());
        types.extend([1, 0]);
        for word in [HEADER, 0, length, length, self.strings.len() as u32] {
            types.extend(word.to_ne_bytes());
        }
        for word in self.types {
            types.extend(word.to_ne_bytes());
        }
        types.extend(self.strings);
        types
    }
}

/// What tells the kernel about these functions; the program's own argument points to a structure of the name `context`.
pub(crate) fn describe(functions: &[Function], context: &str) -> Btf {
    let mut writer = Writer::default();
    writer.strings.push(0);
    writer.add("u64", INT, 0, 8, &[64]);
    let packet = writer.add(context, STRUCT, 0, 8, &[]);
    writer.add("", PTR, 0, packet, &[]);
    let mut info = Vec::new();
    for function in functions {
        let ty = writer.function(function);
        info.extend((function.start as u32).to_ne_bytes());
        info.extend(ty.to_ne_bytes());
    }
    Btf {
        types: writer.finish(),
        functions: info,
    }
}

/// What tells the kernel about entries of so many bytes, a multiple of 8, that sockets have.
pub(crate) fn describe_storage(bytes: u32) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.strings.push(0);
    let key = writer.add("u32", INT, 0, 4, &[32]);
    let word = writer.add("u64", INT, 0, 8, &[64]);
    writer.add("", ARRAY, 0, 0, &[word, key, bytes / 8]);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers_agree() {
        let function = |name: &str, kind, start| Function {
            name: name.to_owned(),
            kind,
            start,
        };
        let functions = [
            function("main", Kind::Main, 0),
            function("sum", Kind::Global(2), 9),
        ];
        let btf = describe(&functions, "__sk_buff");
        let word = |bytes: &[u8], at: usize| {
            u32::from_ne_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap())
        };
        let (types, strings) = (word(&btf.types, 3), word(&btf.types, 5));
        assert_eq!(word(&btf.types, 4), types, "strings follow types");
        assert_eq!(btf.types.len() as u32, HEADER + types + strings);
        // Three types, then prototype and function twice.
        let told = [0, 1, 2, 3].map(|at| word(&btf.functions, at));
        assert_eq!(told, [0, 5, 9, 7]);
        let text = String::from_utf8_lossy(&btf.types[(HEADER + types) as usize..]).into_owned();
        assert!(text.contains("\0__sk_buff\0") && text.contains("\0sum\0"));
    }
}
