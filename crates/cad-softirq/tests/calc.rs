//! Calculations by options of sockets: right in every bit, refused where they make no sense, and nothing to anybody else.

mod world;

use boundary::UserBuf;
use bytecode::{Binary, Builder, Program, Side, Type as Field, Wide};
use cad_softirq::calc::{
    CELLS, Calculator, Formula, LEVEL, NotMade, combine, give, is_there, load,
};
use cad_softirq::flat::Flat;
use cad_softirq::layout::{DATA_MAX, Op, Type};
use op::Builtin;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use types::basic::Elem;
use world::{noise, skipped};

/// What makes sockets, if that is possible here. One at a time: it moves this process.
fn calculator() -> Option<(MutexGuard<'static, ()>, Calculator)> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    match Calculator::new() {
        Ok(calculator) => Some((guard, calculator)),
        Err(NotMade::Group(why)) => {
            skipped(&why);
            None
        }
        Err(NotMade::Refused(why)) => {
            assert!(why.is_forbidden(), "{why}");
            skipped(&why.to_string());
            None
        }
    }
}

/// `setsockopt`; the error's number if it fails.
fn set(socket: &OwnedFd, level: u32, name: u32, value: &[u8]) -> Result<(), i32> {
    let (at, bytes) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: the value is as long as told.
    let told =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level as i32, name as i32, at, bytes) };
    result(told)
}

fn get(socket: &OwnedFd, level: i32, name: u32, value: &mut [u8]) -> Result<usize, i32> {
    let (at, mut bytes) = (value.as_mut_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: the value may be written, and is as long as told.
    let told =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name as i32, at, &raw mut bytes) };
    result(told).map(|()| bytes as usize)
}

fn result(told: i32) -> Result<(), i32> {
    match told {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

/// `inout = input op inout`, by a cell.
fn calculate(socket: &OwnedFd, cell: u32, formula: Formula, input: &[u8], inout: &mut [u8]) {
    set(socket, LEVEL, load(cell), inout).unwrap();
    set(socket, LEVEL, combine(cell, formula), input).unwrap();
    let got = get(socket, libc::SOL_SOCKET, give(cell), inout);
    assert_eq!(got, Ok(inout.len()));
}

const OPS: [(Op, Builtin); 10] = [
    (Op::Sum, Builtin::Sum),
    (Op::Prod, Builtin::Prod),
    (Op::Min, Builtin::Min),
    (Op::Max, Builtin::Max),
    (Op::Band, Builtin::Band),
    (Op::Bor, Builtin::Bor),
    (Op::Bxor, Builtin::Bxor),
    (Op::Land, Builtin::Land),
    (Op::Lor, Builtin::Lor),
    (Op::Lxor, Builtin::Lxor),
];

const TYPES: [(Type, Elem); 10] = [
    (Type::I8, Elem::I8),
    (Type::U8, Elem::U8),
    (Type::I16, Elem::I16),
    (Type::U16, Elem::U16),
    (Type::I32, Elem::I32),
    (Type::U32, Elem::U32),
    (Type::I64, Elem::I64),
    (Type::U64, Elem::U64),
    (Type::F32, Elem::F32),
    (Type::F64, Elem::F64),
];

/// Operands, special ones among them: zeros, infinities, subnormal numbers, NaN, such as cancel each other.
fn operand(seed: &mut u64, ty: Type, count: usize) -> Vec<u8> {
    let one = |seed: &mut u64| {
        let (bits, kind) = (noise(seed), noise(seed) % 8);
        let special32 = [
            0,
            0x8000_0000,
            0x7f80_0000,
            0xff80_0000,
            1,
            0x7f7f_ffff,
            0x3f80_0000,
            0x7fc0_0001,
        ];
        let special64 = [
            0,
            1 << 63,
            0x7ff0 << 48,
            0xfff0 << 48,
            1,
            0x7fef_ffff_ffff_ffff,
            0x3ff0 << 48,
            0x7ff8_0000_0000_0001,
        ];
        let which = noise(seed) as usize % 8;
        match (ty, kind) {
            (Type::F32, 0) => special32[which],
            (Type::F64, 0) => special64[which],
            // Near each other.
            (Type::F32, 1..4) => 0x3f80_0000 ^ (bits & 0x80ff_ffff),
            (Type::F64, 1..4) => (0x3ff0 << 48) ^ (bits & 0x801f_ffff_ffff_ffff),
            (_, 4) => 0,
            _ => bits,
        }
    };
    let bytes = (0..count).flat_map(|_| one(seed).to_le_bytes()[..ty.bytes()].to_vec());
    bytes.collect()
}

#[test]
fn results_are_the_processors_bit_by_bit() {
    let Some((_one, mut calculator)) = calculator() else {
        return;
    };
    let ([socket, _end], mut seed) = (calculator.socket().unwrap(), 7);
    for (ty, elem) in TYPES {
        for (op, builtin) in OPS {
            let Some(formula) = Formula::of(op, ty) else {
                assert!(ty.is_float(), "{op:?} of {ty:?}");
                continue;
            };
            let kernel = op::kernel(builtin, elem).unwrap();
            let most = DATA_MAX / ty.bytes();
            for count in [1, 2, 3, 5, 7, most - 1, most, most, most] {
                let cell = noise(&mut seed) as u32 % CELLS;
                let mut input = operand(&mut seed, ty, count);
                let mut inout = operand(&mut seed, ty, count);
                let mut right = inout.clone();
                let bufs = [&mut input, &mut right].map(|b| UserBuf::of_array(b.as_mut_slice()));
                kernel.apply(bufs[0], bufs[1], count as u64);
                let before = inout.clone();
                calculate(&socket, cell, formula, &input, &mut inout);
                for at in (0..inout.len()).step_by(ty.bytes()) {
                    let all = [&input, &before, &inout, &right].map(|v| &v[at..at + ty.bytes()]);
                    assert_eq!(all[2], all[3], "{op:?} of {ty:?}: {all:x?}");
                }
            }
        }
    }
}

#[test]
fn byte_code_is_run() {
    let Some((_one, mut calculator)) = calculator() else {
        return;
    };
    let mut builder = Builder::new(16);
    let [a, b] = [Side::In, Side::Inout].map(|side| builder.load(side, Field::F64, 0));
    let sum = builder.binary(Binary::Add, Wide::F64, a, b);
    builder.store(Field::F64, 0, sum);
    let program = Program::verify(&builder.code().unwrap()).unwrap();
    let flat = Flat::of(&program).unwrap();
    let ([socket, _end], formula) = (calculator.socket().unwrap(), Formula::coded(2).unwrap());
    let bytes = |v: [f64; 4]| v.map(f64::to_le_bytes).as_flattened().to_vec();
    let mut input = bytes([1.5, 7.0, 2.25, 8.0]);
    let mut value = bytes([10.0, 9.0, 20.0, 11.0]);
    let mut right = value.clone();
    set(&socket, LEVEL, load(3), &value).unwrap();
    let refused = set(&socket, LEVEL, combine(3, formula), &input);
    assert_eq!(refused, Err(libc::EPERM), "there is none yet");
    calculator.put(socket.as_fd(), 2, &flat).unwrap();
    assert!(calculator.put(socket.as_fd(), 4, &flat).is_err());
    calculate(&socket, 3, formula, &input, &mut value);
    let bufs = [&mut input, &mut right].map(|b| UserBuf::of_array(b));
    op::apply_program(&program, bufs[0], bufs[1], 2);
    assert_eq!(value, right);
    assert_eq!(value, bytes([11.5, 9.0, 22.25, 11.0]));
    // Not whole elements, or none.
    set(&socket, LEVEL, combine(3, formula), &value[..8]).unwrap();
    let other = sys::unix::pair(sys::unix::Kind::Stream).unwrap().0.into();
    let other: OwnedFd = other;
    assert!(
        calculator.put(other.as_fd(), 2, &flat).is_err(),
        "none of ours"
    );
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let Some((_one, mut calculator)) = calculator() else {
        return;
    };
    let [socket, _end] = calculator.socket().unwrap();
    let content = |cell| vec![cell as u8 + 1; DATA_MAX];
    for cell in 0..CELLS {
        set(&socket, LEVEL, load(cell), &content(cell)).unwrap();
    }
    let long = vec![0xff; DATA_MAX + 1];
    let sum = Formula::of(Op::Sum, Type::U8).unwrap();
    let mut names = vec![
        0,
        u32::MAX,
        load(CELLS),
        load(255),
        combine(CELLS, sum),
        combine(0, sum) | 1 << 24,
    ];
    let mut seed = 11;
    for op in 0..=255_u32 {
        for ty in [0, 9, 10, 77, 255] {
            let known = op == 1
                || Op::ALL.iter().any(|&o| {
                    o as u32 == op
                        && Type::ALL
                            .iter()
                            .any(|&t| t as u32 == ty && Formula::of(o, t).is_some())
                });
            if !known {
                names.push(op << 8 | ty << 16);
            }
        }
    }
    for name in names {
        assert_eq!(
            set(&socket, LEVEL, name, &[7; 8]),
            Err(libc::EPERM),
            "{name:#x}"
        );
    }
    for value in [&long[..], &vec![0xff; 4096], &vec![0xff; 100_000], &[]] {
        for name in [load(0), combine(0, sum)] {
            assert_eq!(
                set(&socket, LEVEL, name, value),
                Err(libc::EPERM),
                "{}",
                value.len()
            );
        }
    }
    // The kernel's own words for a name that it does not know.
    let mut value = vec![0; DATA_MAX + 1];
    for (name, bytes) in [
        (give(CELLS), 8),
        (give(255), 8),
        (give(0), 0),
        (give(0), DATA_MAX + 1),
        (give(0) + 256, 8),
    ] {
        let got = get(&socket, libc::SOL_SOCKET, name, &mut value[..bytes]);
        assert_eq!(got, Err(libc::ENOPROTOOPT), "{name:#x} {bytes}");
    }
    for cell in 0..CELLS {
        let bytes = 1 + noise(&mut seed) as usize % DATA_MAX;
        let mut value = vec![0; bytes];
        assert_eq!(
            get(&socket, libc::SOL_SOCKET, give(cell), &mut value),
            Ok(bytes)
        );
        assert_eq!(value, content(cell)[..bytes], "cell {cell}");
    }
}

#[test]
fn everything_else_passes() {
    let Some((_one, mut calculator)) = calculator() else {
        return;
    };
    let [ours, end] = calculator.socket().unwrap();
    let [other, _]: [OwnedFd; 2] = sys::unix::pair(sys::unix::Kind::Stream)
        .unwrap()
        .into_each();
    let udp: OwnedFd = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into();
    // The end that kaccd keeps was made in the group too, and has no cells.
    for socket in [&ours, &end, &other, &udp] {
        let size = 65_536_u32;
        set(
            socket,
            libc::SOL_SOCKET as u32,
            libc::SO_RCVBUF as u32,
            &size.to_ne_bytes(),
        )
        .unwrap();
        let mut got = [0; 4];
        get(socket, libc::SOL_SOCKET, libc::SO_RCVBUF as u32, &mut got).unwrap();
        assert_eq!(u32::from_ne_bytes(got), 2 * size);
        get(socket, libc::SOL_SOCKET, libc::SO_TYPE as u32, &mut got).unwrap();
    }
    for socket in [&end, &other, &udp] {
        let told = set(socket, LEVEL, load(0), &[1; 8]).unwrap_err();
        assert!(
            [libc::EOPNOTSUPP, libc::ENOPROTOOPT].contains(&told),
            "{told}"
        );
        let told = get(socket, libc::SOL_SOCKET, give(0), &mut [0; 8]);
        assert_eq!(told, Err(libc::ENOPROTOOPT));
    }
    assert!(is_there(&end));
    drop(ours);
    assert!(!is_there(&end));
}

/// The pairs' ends, as descriptors.
trait IntoEach {
    fn into_each(self) -> [OwnedFd; 2];
}

impl IntoEach for (sys::unix::Socket, sys::unix::Socket) {
    fn into_each(self) -> [OwnedFd; 2] {
        [self.0.into(), self.1.into()]
    }
}

/// Folders of groups like ours, wherever this process may have made one.
fn folders() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let at = mounts.lines().filter(|line| line.contains(" - cgroup2 "));
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .unwrap_or("")
        .to_owned();
    let at = at
        .filter_map(|line| line.split(' ').nth(4))
        .map(|at| PathBuf::from(at).join(&own));
    let inside = at.flat_map(|at| std::fs::read_dir(at).into_iter().flatten().flatten());
    let ours = inside
        .map(|f| f.path())
        .filter(|path| path.to_string_lossy().contains("/yamabiko-kaccd-"));
    ours.collect()
}

#[test]
fn nothing_is_left_behind() {
    let own = || std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let before = own();
    let Some((_one, mut calculator)) = calculator() else {
        return;
    };
    assert_eq!((own(), folders()), (before.clone(), vec![]));
    // More than are made at once: the later ones as the first. They outlive what made them.
    let sockets: Vec<_> = (0..40).map(|_| calculator.socket().unwrap()).collect();
    assert_eq!((own(), folders()), (before.clone(), vec![]));
    drop(calculator);
    let sum = Formula::of(Op::Sum, Type::U32).unwrap();
    for [socket, _] in &sockets {
        let mut inout = 2_u32.to_le_bytes();
        calculate(socket, 0, sum, &3_u32.to_le_bytes(), &mut inout);
        assert_eq!(u32::from_le_bytes(inout), 5);
    }
    // What one has left that was killed in the middle is taken away by the next.
    let mut killed = std::process::Command::new("true").spawn().unwrap();
    killed.wait().unwrap();
    let above = calculator_folder();
    let left = above.join(format!("yamabiko-kaccd-{}-0", killed.id()));
    let living = above.join(format!("yamabiko-kaccd-{}-777", std::process::id()));
    std::fs::create_dir(&left).unwrap();
    std::fs::create_dir(&living).unwrap();
    drop(Calculator::new().unwrap());
    let found = folders();
    std::fs::remove_dir(&living).unwrap();
    assert_eq!(found, [living]);
}

/// Where groups are made.
fn calculator_folder() -> PathBuf {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = mounts
        .lines()
        .find(|line| line.contains(" - cgroup2 "))
        .unwrap();
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .unwrap_or("")
        .to_owned();
    PathBuf::from(line.split(' ').nth(4).unwrap()).join(own)
}

#[test]
fn the_verifier_has_little_to_do() {
    let Some((_one, calculator)) = calculator() else {
        return;
    };
    let verified = calculator.verified().unwrap();
    assert!((1_000..60_000).contains(&verified[0]), "{verified:?}");
    assert!((50..2_000).contains(&verified[1]), "{verified:?}");
}
