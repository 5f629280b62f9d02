//! An interpreter of eBPF for tests: it runs the very instructions that the kernel gets, with memory whose bounds
//! it checks, on a packet.
//!
//! A pointer is the number of a region, and the distance from its start in the lower half. Regions 1 to
//! 3 are nothing, the context and the packet's own; the rest are maps and stacks.

use crate::asm::{Code, Insn, op};
use std::collections::HashMap;

const CONTEXT: usize = 1;
const STACK: usize = 512;
/// Instructions that a run may take.
const STEPS: u64 = 10_000_000;

/// Fields of `__sk_buff`.
const SKB_LEN: usize = 0;
const SKB_FOR: usize = 4;
const SKB_PROTOCOL: usize = 16;
const SKB_IFINDEX: usize = 40;

/// A map.
pub(crate) struct SimMap {
    pub bytes: usize,
    pub entries: u32,
    /// The maps that are its entries.
    pub of: Option<HashMap<u32, usize>>,
    region: usize,
}

/// A machine with maps, and a packet.
pub(crate) struct Machine {
    regions: Vec<Vec<u8>>,
    maps: Vec<SimMap>,
    /// The packet that the program looks at.
    pub packet: Vec<u8>,
    /// Whom the link has it for: 0 is this host.
    pub whom: u32,
    /// Packets that the program has sent, and where.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// What the clock says.
    pub now: u64,
    /// What is random.
    pub seed: u64,
    /// Instructions of the last run.
    pub steps: u64,
}

impl Machine {
    pub fn new() -> Machine {
        Machine {
            regions: vec![Vec::new(), vec![0; 192]],
            maps: Vec::new(),
            packet: Vec::new(),
            whom: 0,
            sent: Vec::new(),
            now: 0,
            seed: 1,
            steps: 0,
        }
    }

    fn region(&mut self, bytes: usize) -> usize {
        self.regions.push(vec![0; bytes]);
        self.regions.len() - 1
    }

    /// A map like the kernel's; its number.
    pub fn map(&mut self, bytes: usize, entries: u32) -> usize {
        let region = self.region(bytes * entries as usize);
        self.maps.push(SimMap {
            bytes,
            entries,
            of: None,
            region,
        });
        self.maps.len() - 1
    }

    /// A map of maps.
    pub fn map_of_maps(&mut self, entries: u32) -> usize {
        let map = self.map(4, entries);
        self.maps[map].of = Some(HashMap::new());
        map
    }

    /// Makes a map an entry of another.
    pub fn set_map(&mut self, outer: usize, key: u32, inner: usize) {
        let of = self.maps[outer].of.as_mut().unwrap();
        of.insert(key, inner);
    }

    /// An entry.
    pub fn entry(&mut self, map: usize, key: u32) -> &mut [u8] {
        let (bytes, region) = (self.maps[map].bytes, self.maps[map].region);
        &mut self.regions[region][key as usize * bytes..][..bytes]
    }

    /// Runs a program, whose maps are these, on a packet that came in at an interface; what it gives.
    pub fn run(&mut self, code: &Code, maps: &[usize], interface: u32, packet: &[u8]) -> u64 {
        self.packet = packet.to_vec();
        let protocol = u16::from_le_bytes(packet[12..14].try_into().unwrap());
        self.context(SKB_LEN, packet.len() as u32);
        self.context(SKB_FOR, self.whom);
        self.context(SKB_PROTOCOL, u32::from(protocol));
        self.context(SKB_IFINDEX, interface);
        self.steps = 0;
        let kept = self.regions.len();
        let mut run = Run {
            machine: self,
            code,
            maps,
        };
        let given = run.function(0, &[(CONTEXT as u64) << 32]);
        self.regions.truncate(kept);
        given
    }

    fn context(&mut self, at: usize, value: u32) {
        self.regions[CONTEXT][at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, pointer: u64, length: usize) -> &mut [u8] {
        let (region, at) = ((pointer >> 32) as usize, pointer as u32 as usize);
        assert!(region > 0, "address {pointer:#x}");
        &mut self.regions[region][at..at + length]
    }

    fn read(&mut self, pointer: u64, length: usize) -> u64 {
        let mut word = [0; 8];
        word[..length].copy_from_slice(self.bytes(pointer, length));
        u64::from_le_bytes(word)
    }

    fn write(&mut self, pointer: u64, length: usize, value: u64) {
        let word = value.to_le_bytes();
        self.bytes(pointer, length).copy_from_slice(&word[..length]);
    }
}

struct Run<'a> {
    machine: &'a mut Machine,
    code: &'a Code,
    maps: &'a [usize],
}

impl Run<'_> {
    /// Runs a function to its end.
    fn function(&mut self, start: usize, args: &[u64]) -> u64 {
        let mut r = [0u64; 11];
        r[1..=args.len()].copy_from_slice(args);
        r[10] = (self.machine.region(STACK) as u64) << 32 | STACK as u64;
        let mut pc = start;
        loop {
            let insn = self.code.insns[pc];
            self.machine.steps += 1;
            assert!(self.machine.steps < STEPS, "it does not end");
            pc += 1;
            match insn.code {
                op::EXIT => return r[0],
                op::CALL => self.call(insn, pc, &mut r),
                op::LOAD_WIDE => {
                    r[insn.dst as usize] = self.wide(insn, pc);
                    pc += 1;
                }
                op::BIG_ENDIAN => {
                    let value = &mut r[insn.dst as usize];
                    *value = u64::from((*value as u16).to_be());
                }
                op::ATOMIC => self.atomic(insn, &mut r),
                code => match code & 7 {
                    7 => operate(insn, &mut r),
                    5 => {
                        if jumps(insn, &r) {
                            pc = (pc as i64 + i64::from(insn.off)) as usize;
                        }
                    }
                    _ => self.memory(insn, &mut r),
                },
            }
        }
    }

    fn wide(&mut self, insn: Insn, pc: usize) -> u64 {
        match insn.src {
            op::WIDE_MAP => {
                let at = |m: &&(usize, usize)| m.0 == pc - 1;
                let map = self.code.maps.iter().find(at).unwrap().1;
                self.maps[map] as u64
            }
            op::WIDE_FUNCTION => (pc as i64 + i64::from(insn.imm)) as u64,
            _ => u64::from(insn.imm as u32) | (self.code.insns[pc].imm as u64) << 32,
        }
    }

    fn memory(&mut self, insn: Insn, r: &mut [u64; 11]) {
        let length = match insn.code & 0x18 {
            0x10 => 1,
            0x08 => 2,
            0x00 => 4,
            _ => 8,
        };
        let (dst, src) = (insn.dst as usize, insn.src as usize);
        let at = |base: u64| base.wrapping_add(insn.off as u64);
        match insn.code & 7 {
            1 => r[dst] = self.machine.read(at(r[src]), length),
            2 => self.machine.write(at(r[dst]), length, insn.imm as u64),
            3 => self.machine.write(at(r[dst]), length, r[src]),
            _ => panic!("instruction {:#x}", insn.code),
        }
    }

    fn atomic(&mut self, insn: Insn, r: &mut [u64; 11]) {
        let at = r[insn.dst as usize].wrapping_add(insn.off as u64);
        let (old, src) = (self.machine.read(at, 8), insn.src as usize);
        match insn.imm {
            0x01 | 0xe1 => {
                let sum = if insn.imm == 1 { old } else { 0 };
                self.machine.write(at, 8, sum.wrapping_add(r[src]));
                r[src] = old;
            }
            0xf1 => {
                if old == r[0] {
                    self.machine.write(at, 8, r[src]);
                }
                r[0] = old;
            }
            other => panic!("atomic {other:#x}"),
        }
    }

    fn call(&mut self, insn: Insn, pc: usize, r: &mut [u64; 11]) {
        let args = [r[1], r[2], r[3], r[4], r[5]];
        r[0] = match insn.src {
            op::CALL_FUNCTION => {
                let start = (pc as i64 + i64::from(insn.imm)) as usize;
                let kept = self.machine.regions.len();
                let given = self.function(start, &args);
                self.machine.regions.truncate(kept);
                given
            }
            _ => self.helper(insn.imm, args),
        };
        // What a call destroys is not to be used.
        r[1..=5].fill(0xdead_dead_dead_dead);
    }

    fn helper(&mut self, number: i32, a: [u64; 5]) -> u64 {
        let m = &mut *self.machine;
        match number {
            1 => {
                let key = m.read(a[1], 4) as u32;
                let map = &m.maps[a[0] as usize];
                match &map.of {
                    _ if key >= map.entries => 0,
                    Some(of) => of.get(&key).map_or(0, |&map| map as u64),
                    None => ((map.region as u64) << 32) + u64::from(key) * map.bytes as u64,
                }
            }
            5 => m.now,
            7 => {
                m.seed = m.seed.wrapping_mul(6_364_136_223_846_793_005) + 1;
                m.seed >> 33
            }
            9 | 26 => {
                let (at, length) = (a[1] as usize, a[3] as usize);
                assert!(length > 0, "the kernel takes no empty range");
                if at + length > m.packet.len() {
                    return -14i64 as u64;
                }
                if number == 9 {
                    let from = m.bytes(a[2], length).to_vec();
                    m.packet[at..at + length].copy_from_slice(&from);
                } else {
                    let from = m.packet[at..at + length].to_vec();
                    m.bytes(a[2], length).copy_from_slice(&from);
                }
                0
            }
            13 => {
                let packet = m.packet.clone();
                m.sent.push((a[1] as u32, packet));
                0
            }
            38 => {
                m.packet.resize(a[1] as usize, 0);
                m.context(SKB_LEN, a[1] as u32);
                0
            }
            181 => {
                let kept = self.machine.regions.len();
                for i in 0..a[0] {
                    let given = self.function(a[1] as usize, &[i, a[2]]);
                    self.machine.regions.truncate(kept);
                    if given != 0 {
                        return i + 1;
                    }
                }
                a[0]
            }
            other => panic!("helper {other}"),
        }
    }
}

fn second(insn: Insn, r: &[u64; 11]) -> u64 {
    match insn.code & op::REG {
        0 => insn.imm as u64,
        _ => r[insn.src as usize],
    }
}

fn operate(insn: Insn, r: &mut [u64; 11]) {
    let b = second(insn, r);
    let a = &mut r[insn.dst as usize];
    let by = b as u32;
    *a = match insn.code & 0xf0 {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 => a.checked_div(b).unwrap_or(0),
        0x90 => a.checked_rem(b).unwrap_or(*a),
        0x40 => *a | b,
        0x50 => *a & b,
        // What the kernel does with longer shifts depends on the processor.
        0x60 => a.checked_shl(by).expect("a shift within 64 bits"),
        0x70 => a.checked_shr(by).expect("a shift within 64 bits"),
        0xa0 => *a ^ b,
        0xb0 => b,
        0xc0 => (*a as i64).checked_shr(by).expect("a shift within 64 bits") as u64,
        other => panic!("operation {other:#x}"),
    };
}

fn jumps(insn: Insn, r: &[u64; 11]) -> bool {
    let (a, b) = (r[insn.dst as usize], second(insn, r));
    let (x, y) = (a as i64, b as i64);
    match insn.code & 0xf0 {
        0x00 => true,
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        0x50 => a != b,
        0x60 => x > y,
        0x70 => x >= y,
        0xa0 => a < b,
        0xb0 => a <= b,
        0xc0 => x < y,
        0xd0 => x <= y,
        other => panic!("jump {other:#x}"),
    }
}
