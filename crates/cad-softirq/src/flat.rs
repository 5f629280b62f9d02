//! Byte code of a user's (crate `bytecode`) as the program at the interfaces runs it: [`Flat`].
//!
//! No instruction of his becomes one of the kernel's. The program is always the same, and has a machine in it (`program/machine.rs`) that is
//! given words of one length. A word has the number of a [`Step`] in its lowest byte, then the places of the registers `to`, `a` and `b` in
//! bytes, and in its upper half an *immediate*: an offset, by how many bits to shift, a constant, or the place of `c`.
//!
//! # What it takes
//!
//! Loads, stores, constants, selections and conversions between integers, all operations on integers, and of those on floating-point numbers
//! what `program/float.rs` has: sum, difference, product, minimum, maximum, comparisons, sign. Fields lie at multiples of their size, in elements that are such
//! multiples. [`Flat::of`] says of everything else that it is not for the kernel.
//!
//! Invariant: whether byte code is for the kernel, and what becomes of it, depends on it alone: so all processes, and the daemon,
//! which trusts none of them, come to the same.
//!
//! Who calls it: a process that has byte code to run ([`rank`](crate::rank)), the [`daemon`](crate::daemon), and the program's writer, for the numbers.

use crate::layout::{DATA_MAX, SLOTS, STEPS_MAX, WORDS_MAX, code};
use bytecode::{Binary, Instruction, Kind, Program, Reg, Side, Type, Unary, Wide};
use std::sync::Arc;

/// What a word does. Widths are in bytes; what a sign makes no difference to is there for numbers without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `to` = the field at the offset in the immediate's lower half, extended: shifted up by its upper half, and back with the sign.
    Load(Side, u16),
    /// The field at the offset = `a`.
    Store(u16),
    /// `to` = the immediate, with its sign.
    Const,
    /// `to` = `a` with the immediate for its upper half.
    High,
    /// `to` = `a` ∘ `b`.
    Binary(Binary, Wide),
    /// `to` = ∘ `a`.
    Unary(Unary, Wide),
    /// `to` = `a` ≠ 0 ? `b` : the register at the immediate.
    Select,
    /// `to` = `a`, shifted up by the immediate and back; with the sign?
    Extend(bool),
}

impl Step {
    /// All of them; what stands at a place has its number.
    pub fn all() -> Vec<Step> {
        let mut all = Vec::new();
        for side in [Side::In, Side::Inout] {
            all.extend([1, 2, 4, 8].map(|bytes| Step::Load(side, bytes)));
        }
        all.extend([1, 2, 4, 8].map(Step::Store));
        all.extend([Step::Const, Step::High, Step::Select]);
        all.extend([false, true].map(Step::Extend));
        for &wide in Wide::ALL {
            let here = |&op: &Binary| binary(op, wide) == Some(Step::Binary(op, wide));
            let ops = Binary::ALL.iter().copied().filter(here);
            all.extend(ops.map(|op| Step::Binary(op, wide)));
            let here = |&op: &Unary| unary(op, wide) == Some(Step::Unary(op, wide));
            let ops = Unary::ALL.iter().copied().filter(here);
            all.extend(ops.map(|op| Step::Unary(op, wide)));
        }
        all
    }

    fn number(self) -> u64 {
        let at = Step::all().iter().position(|&step| step == self);
        at.expect("all steps are there") as u64
    }
}

fn is_float(wide: Wide) -> bool {
    wide.kind() != Kind::Integer
}

/// The step that does it, if there is one.
fn binary(op: Binary, wide: Wide) -> Option<Step> {
    use Binary::{Div, Le, Lt, Max, Min, Rem, Shr};
    if !op.takes(wide) || is_float(wide) && op == Div {
        return None;
    }
    let signless = !matches!(op, Div | Rem | Shr | Min | Max | Lt | Le);
    Some(match wide {
        Wide::I64 if signless => Step::Binary(op, Wide::U64),
        _ => Step::Binary(op, wide),
    })
}

fn unary(op: Unary, wide: Wide) -> Option<Step> {
    if !op.takes(wide) || op == Unary::Sqrt {
        return None;
    }
    Some(match (op, wide) {
        (Unary::Neg | Unary::Not, Wide::I64) => Step::Unary(op, Wide::U64),
        _ => Step::Unary(op, wide),
    })
}

/// A word on its way.
#[derive(Clone, Copy)]
struct Word {
    step: Step,
    to: Option<Reg>,
    a: Option<Reg>,
    b: Option<Reg>,
    immediate: u32,
}

/// Where a register is, in bytes.
fn place(reg: Reg) -> u64 {
    8 * reg.index() as u64
}

impl Word {
    fn new(step: Step) -> Word {
        Word {
            step,
            to: None,
            a: None,
            b: None,
            immediate: 0,
        }
    }

    fn word(self) -> u64 {
        let [to, a, b] = [self.to, self.a, self.b].map(|reg| reg.map_or(0, place));
        self.step.number() | to << 8 | a << 16 | b << 24 | u64::from(self.immediate) << 32
    }
}

/// By how many bits a field has to be shifted up and back to be extended with its sign.
fn shift(ty: Type) -> u32 {
    64 - 8 * u32::from(ty.bytes())
}

fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::I8 | Type::I16 | Type::I32 | Type::I64)
}

/// Words being made of the instructions on elements of so many bytes.
struct Writer {
    element: u32,
    words: Vec<u64>,
}

impl Writer {
    fn push(&mut self, word: Word) {
        self.words.push(word.word());
    }

    /// Whether the machine reaches a field.
    fn is_aligned(&self, ty: Type, offset: u16) -> bool {
        let bytes = ty.bytes();
        offset.is_multiple_of(bytes) && self.element.is_multiple_of(u32::from(bytes))
    }

    /// What an instruction becomes; `None` if it is not for the kernel.
    fn instruction(&mut self, instruction: &Instruction) -> Option<()> {
        let word = match *instruction {
            Instruction::Load {
                from,
                ty,
                to,
                offset,
            } if self.is_aligned(ty, offset) => {
                let by = if is_signed(ty) { shift(ty) } else { 0 };
                Word {
                    to: Some(to),
                    immediate: u32::from(offset) | by << 16,
                    ..Word::new(Step::Load(from, ty.bytes()))
                }
            }
            Instruction::Store { ty, a, offset } if self.is_aligned(ty, offset) => Word {
                a: Some(a),
                immediate: u32::from(offset),
                ..Word::new(Step::Store(ty.bytes()))
            },
            Instruction::Load { .. } | Instruction::Store { .. } => return None,
            Instruction::Const { to, value, .. } => {
                self.constant(to, value);
                return Some(());
            }
            Instruction::Binary { op, wide, to, a, b } => Word {
                to: Some(to),
                a: Some(a),
                b: Some(b),
                ..Word::new(binary(op, wide)?)
            },
            Instruction::Unary { op, wide, to, a } => Word {
                to: Some(to),
                a: Some(a),
                ..Word::new(unary(op, wide)?)
            },
            Instruction::Select { to, a, b, c, .. } => Word {
                to: Some(to),
                a: Some(a),
                b: Some(b),
                immediate: place(c) as u32,
                ..Word::new(Step::Select)
            },
            Instruction::Convert { from, into, to, a } => {
                let same = from.ty() == into;
                if !same && (is_float(from) || into.kind() != Kind::Integer) {
                    return None;
                }
                Word {
                    to: Some(to),
                    a: Some(a),
                    immediate: if same { 0 } else { shift(into) },
                    ..Word::new(Step::Extend(is_signed(into)))
                }
            }
        };
        self.push(word);
        Some(())
    }

    /// One word if its sign is all that is missing, else two.
    fn constant(&mut self, to: Reg, value: u64) {
        let low = value as u32;
        self.push(Word {
            to: Some(to),
            immediate: low,
            ..Word::new(Step::Const)
        });
        if i64::from(low as i32) as u64 != value {
            self.push(Word {
                to: Some(to),
                a: Some(to),
                immediate: (value >> 32) as u32,
                ..Word::new(Step::High)
            });
        }
    }
}

/// Byte code that the kernel's program can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flat {
    element: u32,
    words: Vec<u64>,
    mark: u32,
    code: Vec<u8>,
}

impl Flat {
    /// What becomes of byte code; `None` if it is not for the kernel.
    pub fn of(program: &Program) -> Option<Flat> {
        let element = program.element();
        if element as usize > DATA_MAX {
            return None;
        }
        let mut writer = Writer {
            element,
            words: Vec::new(),
        };
        for instruction in program.instructions() {
            writer.instruction(instruction)?;
        }
        let words = writer.words;
        let known = (1..=WORDS_MAX).contains(&words.len());
        known.then(|| Flat {
            element,
            mark: mark(element, &words),
            words,
            code: program.encoded(),
        })
    }

    /// Whether the kernel does it on so many bytes: a packet has room for them, they are whole elements, and it does not take too long.
    pub fn fits(&self, bytes: usize) -> bool {
        let (element, words) = (self.element as usize, self.words.len());
        (1..=DATA_MAX).contains(&bytes)
            && bytes.is_multiple_of(element)
            && bytes / element * words <= STEPS_MAX as usize
    }

    /// The byte code, as the daemon is given it, which checks it again.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// What shows that two have the same.
    pub(crate) fn mark(&self) -> u32 {
        self.mark
    }

    /// Its entry in the map.
    pub(crate) fn entry(&self) -> Vec<u8> {
        let mut entry = vec![0; code::BYTES];
        let mut put = |at: i16, bytes: &[u8]| {
            entry[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(code::MARK, &u64::from(self.mark).to_le_bytes());
        put(code::WORDS, &(self.words.len() as u32).to_le_bytes());
        put(code::ELEMENT, &self.element.to_le_bytes());
        for (at, word) in self.words.iter().enumerate() {
            put(code::TEXT + 8 * at as i16, &word.to_le_bytes());
        }
        entry
    }
}

/// FNV-1a (Fowler, Noll and Vo), folded to 32 bits. It finds processes that disagree, and needs not withstand who looks for another one of the
/// same: he would harm himself.
fn mark(element: u32, words: &[u64]) -> u32 {
    let all = [u64::from(element)]
        .into_iter()
        .chain(words.iter().copied());
    let hash = all
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    (hash ^ hash >> 32) as u32
}

/// What a process knows of a context's slots. All its processes use the same byte code in the same order, so all know the same; where they
/// don't, the marks say so.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    held: [Option<Held>; SLOTS as usize],
    /// The next that gets another one.
    next: usize,
}

#[derive(Debug)]
struct Held {
    flat: Arc<Flat>,
    /// Whether this process knows that it is there.
    placed: bool,
}

impl Slots {
    /// The slot of byte code that is to be used next, into which `put` puts it if it isn't known to be there.
    pub fn hold(&mut self, flat: &Arc<Flat>, put: impl FnOnce(u32) -> bool) {
        let known = self.slot(flat);
        let held = known.and_then(|slot| self.held[slot].as_ref());
        if held.is_some_and(|held| held.placed) {
            return;
        }
        let slot = known.unwrap_or_else(|| {
            let slot = self.next;
            self.next = (slot + 1) % SLOTS as usize;
            slot
        });
        let placed = put(slot as u32);
        let flat = flat.clone();
        self.held[slot] = Some(Held { flat, placed });
    }

    /// The slot that it has.
    pub fn slot(&self, flat: &Arc<Flat>) -> Option<usize> {
        let same = |held: &Held| Arc::ptr_eq(&held.flat, flat) || held.flat == *flat;
        let mut all = self.held.iter();
        all.position(|held| held.as_ref().is_some_and(same))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecode::Builder;

    /// Of a program that this writes, on elements of so many bytes.
    fn flat(element: u32, write: impl FnOnce(&mut Builder)) -> Option<Flat> {
        let mut builder = Builder::new(element);
        write(&mut builder);
        Flat::of(&Program::verify(&builder.code().unwrap()).unwrap())
    }

    fn sum(element: u32, times: usize) -> Option<Flat> {
        flat(element, |b| {
            let [a, x] = [Side::In, Side::Inout].map(|side| b.load(side, Type::I32, 0));
            let mut sum = b.binary(Binary::Add, Wide::I64, a, x);
            for _ in 1..times {
                sum = b.binary(Binary::Add, Wide::I64, sum, x);
            }
            b.store(Type::I32, 0, sum);
        })
    }

    #[test]
    fn numbers_fit_into_a_byte_and_no_step_has_two() {
        let all = Step::all();
        assert!(all.len() <= 256);
        for (at, &step) in all.iter().enumerate() {
            assert_eq!(step.number(), at as u64, "{step:?}");
        }
    }

    #[test]
    fn what_the_machine_has_not_is_refused() {
        assert!(sum(4, 1).is_some());
        assert!(flat(4, |_| {}).is_none(), "nothing to do");
        let float = |op| {
            flat(8, |b| {
                let a = b.load(Side::In, Type::F64, 0);
                let a = b.binary(op, Wide::F64, a, a);
                b.store(Type::F64, 0, a);
            })
        };
        assert!(float(Binary::Add).is_some() && float(Binary::Max).is_some());
        assert!(float(Binary::Mul).is_some() && float(Binary::Div).is_none());
        let root = flat(8, |b| {
            let a = b.load(Side::In, Type::F64, 0);
            b.unary(Unary::Sqrt, Wide::F64, a);
        });
        assert!(root.is_none());
        for (from, into, there) in [
            (Type::I64, Type::F64, false),
            (Type::F32, Type::F64, false),
            (Type::F64, Type::I32, false),
            (Type::F64, Type::F64, true),
            (Type::I64, Type::U8, true),
        ] {
            let converted = flat(8, |b| {
                let a = b.load(Side::In, from, 0);
                b.convert(from.wide().unwrap(), into, a);
            });
            assert_eq!(converted.is_some(), there, "{from:?} as {into:?}");
        }
    }

    #[test]
    fn fields_lie_at_multiples_of_their_size() {
        let at = |element, offset| {
            flat(element, |b| {
                b.load(Side::In, Type::I32, offset);
            })
        };
        assert!(at(8, 4).is_some());
        assert!(at(8, 2).is_none() && at(6, 0).is_none());
        assert!(at(DATA_MAX as u32 + 4, 0).is_none(), "no packet has one");
    }

    #[test]
    fn what_takes_too_long_is_refused() {
        assert!(sum(4, WORDS_MAX - 3).is_some());
        let long = flat(8, |b| {
            for _ in 0..WORDS_MAX / 2 + 1 {
                b.integer(1 << 40);
            }
        });
        assert!(long.is_none());
        let (short, long) = (sum(4, 1).unwrap(), sum(4, 60).unwrap());
        let fits = |flat: &Flat| [0, 3, 4, 512, DATA_MAX, DATA_MAX + 4].map(|n| flat.fits(n));
        assert_eq!(fits(&short), [false, false, true, true, true, false]);
        let words = long.words.len();
        let most = STEPS_MAX as usize / words * 4;
        assert!(most < DATA_MAX && long.fits(most) && !long.fits(most + 4));
    }

    #[test]
    fn marks_differ() {
        let all = [sum(4, 1), sum(4, 2), sum(8, 1)].map(|flat| flat.unwrap().mark());
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
    }

    #[test]
    fn slots_are_taken_in_turn_and_kept() {
        let codes: Vec<_> = (1..=SLOTS as usize + 1)
            .map(|n| Arc::new(sum(4, n).unwrap()))
            .collect();
        let (mut slots, mut put) = (Slots::default(), Vec::new());
        let mut hold = |code: &Arc<Flat>| {
            slots.hold(code, |slot| {
                put.push(slot);
                true
            });
            slots.slot(code)
        };
        for (at, code) in codes[..SLOTS as usize].iter().enumerate() {
            assert_eq!(hold(code), Some(at));
            assert_eq!(hold(&Arc::new((**code).clone())), Some(at));
        }
        assert_eq!(hold(&codes[SLOTS as usize]), Some(0));
        assert_eq!(hold(&codes[0]), Some(1));
        assert_eq!(put, [0, 1, 2, 3, 0, 1]);
    }

    #[test]
    fn what_was_not_put_is_put_again_into_its_slot() {
        let code = Arc::new(sum(4, 1).unwrap());
        let (mut slots, mut put) = (Slots::default(), Vec::new());
        for there in [false, true, true] {
            slots.hold(&code, |slot| {
                put.push(slot);
                there
            });
        }
        assert_eq!(put, [0, 0]);
        assert_eq!(slots.slot(&code), Some(0));
    }
}
