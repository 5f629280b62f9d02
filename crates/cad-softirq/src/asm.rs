//! An assembler of eBPF: instructions with labels, functions and references to maps become a [`Code`].
//!
//! Invariants: [`Asm::finish`] has resolved every jump and call, or panics, as that would be an error in
//! this crate and not in what somebody asks of it; instructions of 16 bytes count as two, as in the kernel. Who calls
//! it: `program` and those below it; what it makes goes to `kernel`.

/// A register. `R0` is a function's result, `R1` to `R5` its arguments, which calls destroy, `R6` to `R9`
/// outlive calls, `Fp` is the end of 512 bytes of stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    Fp,
}

/// The second operand: a register, or a constant, which is sign-extended.
#[derive(Clone, Copy, Debug)]
pub enum Src {
    /// What it holds.
    Reg(Reg),
    /// This.
    Imm(i32),
}

impl From<Reg> for Src {
    fn from(reg: Reg) -> Src {
        Src::Reg(reg)
    }
}

impl From<i32> for Src {
    fn from(imm: i32) -> Src {
        Src::Imm(imm)
    }
}

/// `dst = dst op src`, on 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    /// Without signs; 0 if divided by 0.
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    /// What is left of [`Div`](Alu::Div); as it was if divided by 0.
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
    /// Shift right that keeps the sign.
    Arsh = 0xc0,
}

/// When a jump is taken, on 64 bits; those with `S` compare signed numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Cond {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    Ne = 0x50,
    SGt = 0x60,
    SGe = 0x70,
    Lt = 0xa0,
    Le = 0xb0,
    SLt = 0xc0,
    SLe = 0xd0,
}

/// How much of memory is meant: 1, 2, 4 or 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Size {
    B = 0x10,
    H = 0x08,
    W = 0x00,
    D = 0x18,
}

/// An atomic operation on 8 bytes, after which `src` (with `CompareExchange` `R0`) holds what was there. All order
/// memory in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Atomic {
    Add = 0x01,
    Exchange = 0xe1,
    /// Stores `src` if what is there equals `R0`.
    CompareExchange = 0xf1,
}

/// The kernel's functions that are used, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Helper {
    MapLookup = 1,
    Ktime = 5,
    Random = 7,
    StoreBytes = 9,
    CloneRedirect = 13,
    LoadBytes = 26,
    ChangeTail = 38,
    SocketStorage = 107,
    Loop = 181,
}

/// Instruction codes, as the kernel has them.
pub(crate) mod op {
    pub const LOAD_WIDE: u8 = 0x18;
    pub const LOAD: u8 = 0x61;
    pub const STORE_IMM: u8 = 0x62;
    pub const STORE: u8 = 0x63;
    pub const ATOMIC: u8 = 0xdb;
    pub const ALU64: u8 = 0x07;
    pub const JUMP: u8 = 0x05;
    pub const BIG_ENDIAN: u8 = 0xdc;
    pub const CALL: u8 = 0x85;
    pub const EXIT: u8 = 0x95;
    /// Set where the second operand is a register.
    pub const REG: u8 = 0x08;
    /// In the source register of `LOAD_WIDE`: a map.
    pub const WIDE_MAP: u8 = 1;
    /// In the source register of `LOAD_WIDE`: a function.
    pub const WIDE_FUNCTION: u8 = 4;
    /// In the source register of `CALL`: a function of the program.
    pub const CALL_FUNCTION: u8 = 1;
}

/// An instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Insn {
    /// What it does.
    pub code: u8,
    /// First operand.
    pub dst: u8,
    /// Second operand.
    pub src: u8,
    /// Distance in memory, or of a jump.
    pub off: i16,
    /// Constant.
    pub imm: i32,
}

impl Insn {
    /// As the kernel takes it.
    pub fn bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[0] = self.code;
        bytes[1] = match cfg!(target_endian = "little") {
            true => self.src << 4 | self.dst,
            false => self.dst << 4 | self.src,
        };
        bytes[2..4].copy_from_slice(&self.off.to_ne_bytes());
        bytes[4..].copy_from_slice(&self.imm.to_ne_bytes());
        bytes
    }
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A function of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Func(usize);

/// What the kernel's verifier is told of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The program itself: a packet is its argument.
    Main,
    /// It is verified alone: so many numbers are its arguments.
    Global(usize),
    /// It is verified alone: a packet and so many numbers are its arguments.
    Packet(usize),
    /// It is verified with each of its callers, which is [`Helper::Loop`] each time.
    Callback,
}

/// A function, as told to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, as of C.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its first instruction.
    pub start: usize,
}

/// A program that nothing is missing from but its maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// The instructions.
    pub insns: Vec<Insn>,
    /// Which instruction loads which map.
    pub maps: Vec<(usize, usize)>,
    /// The functions in order; the first is the program itself.
    pub functions: Vec<Function>,
}

enum Fix {
    /// A jump's distance.
    Jump(Label),
    /// A call's, or a function pointer's.
    Function(Func),
}

/// A program while it is being written.
#[derive(Default)]
pub struct Asm {
    insns: Vec<Insn>,
    labels: Vec<Option<usize>>,
    fixes: Vec<(usize, Fix)>,
    maps: Vec<(usize, usize)>,
    functions: Vec<(String, Kind, Option<usize>)>,
}

impl Asm {
    /// An empty one.
    pub fn new() -> Asm {
        Asm::default()
    }

    fn push(&mut self, code: u8, dst: u8, src: u8, off: i16, imm: i32) {
        self.insns.push(Insn {
            code,
            dst,
            src,
            off,
            imm,
        });
    }

    /// A label that stands nowhere yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label stands here.
    ///
    /// # Panics
    /// If it stands somewhere already.
    pub fn bind(&mut self, label: Label) {
        let before = self.labels[label.0].replace(self.insns.len());
        assert!(before.is_none(), "a label stands twice");
    }

    /// A function that is written later.
    pub fn declare(&mut self, name: &str, kind: Kind) -> Func {
        self.functions.push((name.to_owned(), kind, None));
        Func(self.functions.len() - 1)
    }

    /// The function begins here.
    ///
    /// # Panics
    /// If it has begun already.
    pub fn begin(&mut self, func: Func) {
        let before = self.functions[func.0].2.replace(self.insns.len());
        assert!(before.is_none(), "a function begins twice");
    }

    /// `dst = dst op src`.
    pub fn alu(&mut self, alu: Alu, dst: Reg, src: impl Into<Src>) {
        self.operate(op::ALU64 | alu as u8, dst, src.into(), 0);
    }

    /// `dst = src`.
    pub fn mov(&mut self, dst: Reg, src: impl Into<Src>) {
        self.alu(Alu::Mov, dst, src);
    }

    fn operate(&mut self, code: u8, dst: Reg, src: Src, off: i16) {
        match src {
            Src::Reg(src) => self.push(code | op::REG, dst as u8, src as u8, off, 0),
            Src::Imm(imm) => self.push(code, dst as u8, 0, off, imm),
        }
    }

    /// `dst = value`, of any size.
    pub fn wide(&mut self, dst: Reg, value: u64) {
        self.pair(dst, 0, value);
    }

    /// `dst` = the map that has this number with whoever loads the program.
    pub fn map(&mut self, dst: Reg, map: usize) {
        self.maps.push((self.insns.len(), map));
        self.pair(dst, op::WIDE_MAP, 0);
    }

    /// `dst` = a callback.
    pub fn function(&mut self, dst: Reg, func: Func) {
        self.fixes.push((self.insns.len(), Fix::Function(func)));
        self.pair(dst, op::WIDE_FUNCTION, 0);
    }

    fn pair(&mut self, dst: Reg, src: u8, value: u64) {
        self.push(op::LOAD_WIDE, dst as u8, src, 0, value as i32);
        self.push(0, 0, 0, 0, (value >> 32) as i32);
    }

    /// `dst = *(base + off)`, with zeros above.
    pub fn load(&mut self, size: Size, dst: Reg, base: Reg, off: i16) {
        self.push(op::LOAD | size as u8, dst as u8, base as u8, off, 0);
    }

    /// `*(base + off) = src`.
    pub fn store(&mut self, size: Size, base: Reg, off: i16, src: impl Into<Src>) {
        match src.into() {
            Src::Reg(src) => self.push(op::STORE | size as u8, base as u8, src as u8, off, 0),
            Src::Imm(imm) => self.push(op::STORE_IMM | size as u8, base as u8, 0, off, imm),
        }
    }

    /// An atomic operation on the 8 bytes at `base + off`.
    pub fn atomic(&mut self, atomic: Atomic, base: Reg, off: i16, src: Reg) {
        self.push(op::ATOMIC, base as u8, src as u8, off, atomic as i32);
    }

    /// Brings the lowest 2 bytes into the network's order and clears the others.
    pub fn big_endian_16(&mut self, dst: Reg) {
        self.push(op::BIG_ENDIAN, dst as u8, 0, 0, 16);
    }

    /// Jumps.
    pub fn jump(&mut self, to: Label) {
        self.fixes.push((self.insns.len(), Fix::Jump(to)));
        self.push(op::JUMP, 0, 0, 0, 0);
    }

    /// Jumps if `dst cond src`.
    pub fn jump_if(&mut self, cond: Cond, dst: Reg, src: impl Into<Src>, to: Label) {
        self.fixes.push((self.insns.len(), Fix::Jump(to)));
        self.operate(op::JUMP | cond as u8, dst, src.into(), 0);
    }

    /// Calls a function of the kernel's.
    pub fn call(&mut self, helper: Helper) {
        self.push(op::CALL, 0, 0, 0, helper as i32);
    }

    /// Calls a function of the program's.
    pub fn call_function(&mut self, func: Func) {
        self.fixes.push((self.insns.len(), Fix::Function(func)));
        self.push(op::CALL, 0, op::CALL_FUNCTION, 0, 0);
    }

    /// Returns `R0`.
    pub fn exit(&mut self) {
        self.push(op::EXIT, 0, 0, 0, 0);
    }

    /// Returns a constant.
    pub fn give(&mut self, value: i32) {
        self.mov(Reg::R0, value);
        self.exit();
    }

    /// The program.
    ///
    /// # Panics
    /// If a label stands nowhere, a function never begins, or a jump is too far.
    pub fn finish(mut self) -> Code {
        for (at, fix) in &self.fixes {
            let (to, what) = match fix {
                Fix::Jump(label) => (self.labels[label.0], "label"),
                Fix::Function(func) => (self.functions[func.0].2, "function"),
            };
            let to = to.unwrap_or_else(|| panic!("a {what} is nowhere"));
            let distance = to as i64 - *at as i64 - 1;
            let insn = &mut self.insns[*at];
            match fix {
                Fix::Jump(_) => insn.off = i16::try_from(distance).expect("a jump is too far"),
                Fix::Function(_) => insn.imm = distance as i32,
            }
        }
        let mut functions: Vec<_> = self
            .functions
            .into_iter()
            .map(|(name, kind, start)| Function {
                name,
                kind,
                start: start.expect("a function never begins"),
            })
            .collect();
        functions.sort_by_key(|f| f.start);
        Code {
            insns: self.insns,
            maps: self.maps,
            functions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_the_kernels() {
        let mut asm = Asm::new();
        let (main, end) = (asm.declare("main", Kind::Main), asm.label());
        asm.begin(main);
        asm.mov(Reg::R0, -2);
        asm.alu(Alu::Add, Reg::R0, Reg::R1);
        asm.jump_if(Cond::SLt, Reg::R0, 7, end);
        asm.load(Size::B, Reg::R3, Reg::Fp, -8);
        asm.store(Size::D, Reg::Fp, -16, Reg::R3);
        asm.store(Size::H, Reg::Fp, -16, 5);
        asm.atomic(Atomic::CompareExchange, Reg::R2, 24, Reg::R3);
        asm.big_endian_16(Reg::R4);
        asm.bind(end);
        asm.exit();
        let told: Vec<_> = asm.finish().insns.iter().map(|i| i.bytes()).collect();
        let expected = [
            [0xb7, 0x00, 0, 0, 0xfe, 0xff, 0xff, 0xff],
            [0x0f, 0x10, 0, 0, 0, 0, 0, 0],
            [0xc5, 0x00, 5, 0, 7, 0, 0, 0],
            [0x71, 0xa3, 0xf8, 0xff, 0, 0, 0, 0],
            [0x7b, 0x3a, 0xf0, 0xff, 0, 0, 0, 0],
            [0x6a, 0x0a, 0xf0, 0xff, 5, 0, 0, 0],
            [0xdb, 0x32, 24, 0, 0xf1, 0, 0, 0],
            [0xdc, 0x04, 0, 0, 16, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        // What is above is for the byte order of nearly everybody.
        if cfg!(target_endian = "little") {
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn calls_and_wide_constants_find_their_places() {
        let mut asm = Asm::new();
        let main = asm.declare("main", Kind::Main);
        let (late, each) = (
            asm.declare("late", Kind::Global(1)),
            asm.declare("each", Kind::Callback),
        );
        asm.begin(main);
        asm.wide(Reg::R1, 0x1234_5678_9abc_def0);
        asm.map(Reg::R2, 3);
        asm.function(Reg::R3, each);
        asm.call_function(late);
        asm.exit();
        asm.begin(each);
        asm.give(0);
        asm.begin(late);
        asm.give(1);
        let code = asm.finish();
        let wide = (code.insns[0].imm as u32, code.insns[1].imm as u32);
        assert_eq!(wide, (0x9abc_def0, 0x1234_5678));
        assert_eq!(code.maps, [(2, 3)]);
        assert_eq!((code.insns[4].src, code.insns[4].imm), (4, 3));
        assert_eq!((code.insns[6].src, code.insns[6].imm), (1, 3));
        let starts: Vec<_> = code.functions.iter().map(|f| (&*f.name, f.start)).collect();
        assert_eq!(starts, [("main", 0), ("each", 8), ("late", 10)]);
    }

    #[test]
    #[should_panic(expected = "a label is nowhere")]
    fn a_label_that_is_nowhere_is_noticed() {
        let mut asm = Asm::new();
        let label = asm.label();
        asm.jump(label);
        asm.finish();
    }
}
