//! Packing speed beside a plain copy: `cargo run --release -p layout --example speed`.

use std::rc::Rc;
use std::time::Instant;

use boundary::AlignedBuf;
use layout::{Bounds, Cursor, Kind, Tree};

/// Best of several runs, in nanoseconds.
fn best(mut run: impl FnMut()) -> f64 {
    let times = (0..15).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos() as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

fn report(name: &str, tree: &Tree, extent: i64, count: u64) {
    let program = Rc::new(tree.compile(Bounds { lb: 0, extent }).unwrap());
    let total = (program.size() * count) as usize;
    let reach = program.true_ub() as usize + extent as usize * (count as usize - 1);
    let mut memory = AlignedBuf::new(reach).unwrap();
    let (base, mut packed) = (memory.buf(), vec![0u8; total]);
    let mut copy = vec![1u8; total];
    let rounds = ((1 << 24) / total).max(1);
    let per = |ns: f64| (rounds * total) as f64 / ns;
    let pack = per(best(|| {
        for _ in 0..rounds {
            Cursor::new(&program, count).pack(base, std::hint::black_box(&mut packed));
        }
    }));
    let unpack = per(best(|| {
        for _ in 0..rounds {
            Cursor::new(&program, count).unpack(base, std::hint::black_box(&packed));
        }
    }));
    let memcpy = per(best(|| {
        for _ in 0..rounds {
            copy.copy_from_slice(std::hint::black_box(&packed));
            std::hint::black_box(&mut copy);
        }
    }));
    println!(
        "{name:<44} {total:>9} B   pack {pack:6.2}   unpack {unpack:6.2}   memcpy {memcpy:6.2} GB/s"
    );
}

fn main() {
    let block = |disp, n| Tree::block(disp, n, Kind::OPAQUE).unwrap();
    for count in [512u64, 8192, 1 << 17] {
        let v = block(0, 8).repeat(count, 16).unwrap();
        report("vector of 8-byte blocks, stride 16", &v, 0, 1);
    }
    report(
        "vector of 8-byte blocks, stride 64",
        &block(0, 8).repeat(8192, 64).unwrap(),
        0,
        1,
    );
    report(
        "vector of 4-byte blocks, stride 16",
        &block(0, 4).repeat(8192, 16).unwrap(),
        0,
        1,
    );
    report(
        "vector of 256-byte blocks, stride 512",
        &block(0, 256).repeat(512, 512).unwrap(),
        0,
        1,
    );
    report("8 of 16 bytes, as a resized type", &block(0, 8), 16, 8192);
    let pair = Tree::seq(&[block(0, 4), block(8, 8)]).unwrap();
    report("struct of int and double", &pair, 16, 8192);
    let column = block(0, 4).repeat(100, 400).unwrap();
    report(
        "100 x 100 floats transposed",
        &column.repeat(100, 4).unwrap(),
        0,
        1,
    );
    let face = block(0, 8)
        .repeat(64, 64 * 8)
        .unwrap()
        .repeat(64, 64 * 64 * 8)
        .unwrap();
    report("face of a 64^3 cube of doubles", &face, 0, 1);
    let disps: Vec<i64> = (0..8192).map(|i| i * 24 + i % 3 * 8).collect();
    report(
        "8192 indexed 8-byte blocks",
        &block(0, 8).scatter(&disps).unwrap(),
        0,
        1,
    );
    let spans = (0..8192)
        .map(|i| (i * 64 + i % 5, 8 + (i as u64 % 4) * 4))
        .collect();
    report(
        "8192 indexed blocks of 8 to 20 bytes",
        &Tree::blocks(spans, Kind::OPAQUE).unwrap(),
        0,
        1,
    );
    let body = Tree::seq(&[block(0, 4).repeat(3, 8).unwrap(), block(32, 8)]).unwrap();
    report(
        "loop of a vector of 3 and a block",
        &body.repeat(4096, 48).unwrap(),
        0,
        1,
    );
}
