//! `{i,s,d,c,z}{ge,tr}{sd,rv,bs,br}2d` and `{i,s,d,c,z}g{sum,amx,amn}2d`, in C (`Cdgesd2d`) and Fortran (`dgesd2d_`).

/// All functions of one type of element.
macro_rules! element {
    ($module:ident, $letter:literal, $element:expr) => {
        mod $module {
            use std::ffi::{c_char, c_int};

            use blacs::{Element, Operation};

            use crate::calls::{self, Found, Matrix, Named};
            use crate::names::{letter, matrix};

            /// The elements as C has them; nothing here looks at one.
            type Elements = *mut std::ffi::c_void;
            type Text = *const c_char;
            type Number = *const c_int;

            /// # Safety
            /// As for [`matrix`].
            #[inline]
            unsafe fn whole(part: Named, m: c_int, n: c_int, a: Elements, lda: c_int) -> Matrix {
                Matrix {
                    element: $element,
                    part,
                    m,
                    n,
                    // SAFETY: the caller's promise.
                    a: unsafe { matrix(a) },
                    lda,
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!("C", $letter, "gesd2d"))]
            unsafe extern "C" fn c_gesd2d(context: c_int, m: c_int, n: c_int, a: Elements, lda: c_int, rdest: c_int, cdest: c_int) {
                /// The rest, with the same arguments: what has to save registers is a function of its own.
                #[cold]
                #[inline(never)]
                unsafe extern "C" fn otherwise(context: c_int, m: c_int, n: c_int, a: Elements, lda: c_int, rdest: c_int, cdest: c_int) {
                    // SAFETY: BLACS' contract.
                    let matrix = unsafe { whole(Named::General, m, n, a, lda) };
                    calls::send(context, &matrix, (rdest, cdest));
                }
                // SAFETY: BLACS' contract.
                unsafe {
                    let matrix = whole(Named::General, m, n, a, lda);
                    if !calls::send_short(context, &matrix, (rdest, cdest)) {
                        otherwise(context, m, n, a, lda, rdest, cdest);
                    }
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!($letter, "gesd2d_"))]
            unsafe extern "C" fn f_gesd2d(context: Number, m: Number, n: Number, a: Elements, lda: Number, rdest: Number, cdest: Number) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let matrix = whole(Named::General, *m, *n, a, *lda);
                    if !calls::send_short(*context, &matrix, (*rdest, *cdest)) {
                        calls::send(*context, &matrix, (*rdest, *cdest));
                    }
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!("C", $letter, "gerv2d"))]
            unsafe extern "C" fn c_gerv2d(context: c_int, m: c_int, n: c_int, a: Elements, lda: c_int, rsrc: c_int, csrc: c_int) {
                /// The rest, with the same arguments: what has to save registers is a function of its own.
                #[cold]
                #[inline(never)]
                unsafe extern "C" fn otherwise(context: c_int, m: c_int, n: c_int, a: Elements, lda: c_int, rsrc: c_int, csrc: c_int) {
                    // SAFETY: BLACS' contract.
                    let matrix = unsafe { whole(Named::General, m, n, a, lda) };
                    calls::receive(context, &matrix, (rsrc, csrc));
                }
                // SAFETY: BLACS' contract.
                unsafe {
                    let matrix = whole(Named::General, m, n, a, lda);
                    if !calls::receive_short(context, &matrix, (rsrc, csrc)) {
                        otherwise(context, m, n, a, lda, rsrc, csrc);
                    }
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!($letter, "gerv2d_"))]
            unsafe extern "C" fn f_gerv2d(context: Number, m: Number, n: Number, a: Elements, lda: Number, rsrc: Number, csrc: Number) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let matrix = whole(Named::General, *m, *n, a, *lda);
                    if !calls::receive_short(*context, &matrix, (*rsrc, *csrc)) {
                        calls::receive(*context, &matrix, (*rsrc, *csrc));
                    }
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!("C", $letter, "trsd2d"))]
            unsafe extern "C" fn c_trsd2d(context: c_int, uplo: Text, diag: Text, m: c_int, n: c_int, a: Elements, lda: c_int, rdest: c_int, cdest: c_int) {
                // SAFETY: BLACS' contract.
                let matrix = unsafe { whole(Named::trapezoid(letter(uplo), letter(diag)), m, n, a, lda) };
                calls::send(context, &matrix, (rdest, cdest));
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!($letter, "trsd2d_"))]
            unsafe extern "C" fn f_trsd2d(context: Number, uplo: Text, diag: Text, m: Number, n: Number, a: Elements, lda: Number, rdest: Number, cdest: Number) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let part = Named::trapezoid(letter(uplo), letter(diag));
                    calls::send(*context, &whole(part, *m, *n, a, *lda), (*rdest, *cdest));
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!("C", $letter, "trrv2d"))]
            unsafe extern "C" fn c_trrv2d(context: c_int, uplo: Text, diag: Text, m: c_int, n: c_int, a: Elements, lda: c_int, rsrc: c_int, csrc: c_int) {
                // SAFETY: BLACS' contract.
                let matrix = unsafe { whole(Named::trapezoid(letter(uplo), letter(diag)), m, n, a, lda) };
                calls::receive(context, &matrix, (rsrc, csrc));
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!($letter, "trrv2d_"))]
            unsafe extern "C" fn f_trrv2d(context: Number, uplo: Text, diag: Text, m: Number, n: Number, a: Elements, lda: Number, rsrc: Number, csrc: Number) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let part = Named::trapezoid(letter(uplo), letter(diag));
                    calls::receive(*context, &whole(part, *m, *n, a, *lda), (*rsrc, *csrc));
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!("C", $letter, "gebs2d"))]
            unsafe extern "C" fn c_gebs2d(context: c_int, scope: Text, top: Text, m: c_int, n: c_int, a: Elements, lda: c_int) {
                // SAFETY: BLACS' contract.
                unsafe { calls::broadcast(context, letter(scope), letter(top), &whole(Named::General, m, n, a, lda)) }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!($letter, "gebs2d_"))]
            unsafe extern "C" fn f_gebs2d(context: Number, scope: Text, top: Text, m: Number, n: Number, a: Elements, lda: Number) {
                // SAFETY: BLACS' contract.
                unsafe { calls::broadcast(*context, letter(scope), letter(top), &whole(Named::General, *m, *n, a, *lda)) }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!("C", $letter, "gebr2d"))]
            unsafe extern "C" fn c_gebr2d(context: c_int, scope: Text, top: Text, m: c_int, n: c_int, a: Elements, lda: c_int, rsrc: c_int, csrc: c_int) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let matrix = whole(Named::General, m, n, a, lda);
                    calls::receive_broadcast(context, letter(scope), letter(top), &matrix, (rsrc, csrc));
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!($letter, "gebr2d_"))]
            unsafe extern "C" fn f_gebr2d(context: Number, scope: Text, top: Text, m: Number, n: Number, a: Elements, lda: Number, rsrc: Number, csrc: Number) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let matrix = whole(Named::General, *m, *n, a, *lda);
                    calls::receive_broadcast(*context, letter(scope), letter(top), &matrix, (*rsrc, *csrc));
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!("C", $letter, "trbs2d"))]
            unsafe extern "C" fn c_trbs2d(context: c_int, scope: Text, top: Text, uplo: Text, diag: Text, m: c_int, n: c_int, a: Elements, lda: c_int) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let part = Named::trapezoid(letter(uplo), letter(diag));
                    calls::broadcast(context, letter(scope), letter(top), &whole(part, m, n, a, lda));
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!($letter, "trbs2d_"))]
            unsafe extern "C" fn f_trbs2d(context: Number, scope: Text, top: Text, uplo: Text, diag: Text, m: Number, n: Number, a: Elements, lda: Number) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let part = Named::trapezoid(letter(uplo), letter(diag));
                    calls::broadcast(*context, letter(scope), letter(top), &whole(part, *m, *n, a, *lda));
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!("C", $letter, "trbr2d"))]
            unsafe extern "C" fn c_trbr2d(context: c_int, scope: Text, top: Text, uplo: Text, diag: Text, m: c_int, n: c_int, a: Elements, lda: c_int, rsrc: c_int, csrc: c_int) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let matrix = whole(Named::trapezoid(letter(uplo), letter(diag)), m, n, a, lda);
                    calls::receive_broadcast(context, letter(scope), letter(top), &matrix, (rsrc, csrc));
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!($letter, "trbr2d_"))]
            unsafe extern "C" fn f_trbr2d(context: Number, scope: Text, top: Text, uplo: Text, diag: Text, m: Number, n: Number, a: Elements, lda: Number, rsrc: Number, csrc: Number) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let matrix = whole(Named::trapezoid(letter(uplo), letter(diag)), *m, *n, a, *lda);
                    calls::receive_broadcast(*context, letter(scope), letter(top), &matrix, (*rsrc, *csrc));
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!("C", $letter, "gsum2d"))]
            unsafe extern "C" fn c_gsum2d(context: c_int, scope: Text, top: Text, m: c_int, n: c_int, a: Elements, lda: c_int, rdest: c_int, cdest: c_int) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let matrix = whole(Named::General, m, n, a, lda);
                    let how = (letter(scope), letter(top));
                    calls::combine(context, how, Operation::Sum, &matrix, None, (rdest, cdest));
                }
            }

            #[rustfmt::skip]
            #[unsafe(export_name = concat!($letter, "gsum2d_"))]
            unsafe extern "C" fn f_gsum2d(context: Number, scope: Text, top: Text, m: Number, n: Number, a: Elements, lda: Number, rdest: Number, cdest: Number) {
                // SAFETY: BLACS' contract.
                unsafe {
                    let matrix = whole(Named::General, *m, *n, a, *lda);
                    let how = (letter(scope), letter(top));
                    calls::combine(*context, how, Operation::Sum, &matrix, None, (*rdest, *cdest));
                }
            }

            extreme!("gamx2d", c_gamx2d, f_gamx2d, $letter, Operation::Max);
            extreme!("gamn2d", c_gamn2d, f_gamn2d, $letter, Operation::Min);
        }
    };
}

/// The greatest or least element by absolute value, with where it was found.
macro_rules! extreme {
    ($name:literal, $c:ident, $fortran:ident, $letter:literal, $operation:expr) => {
        #[rustfmt::skip]
        #[unsafe(export_name = concat!("C", $letter, $name))]
        unsafe extern "C" fn $c(context: c_int, scope: Text, top: Text, m: c_int, n: c_int, a: Elements, lda: c_int, ra: *mut c_int, ca: *mut c_int, ldia: c_int, rdest: c_int, cdest: c_int) {
            // SAFETY: BLACS' contract; the arrays of coordinates are there unless `ldia` is -1.
            unsafe {
                let found = Found { rows: matrix(ra), columns: matrix(ca), leading: ldia };
                let matrix = whole(Named::General, m, n, a, lda);
                let how = (letter(scope), letter(top));
                calls::combine(context, how, $operation, &matrix, Some(found), (rdest, cdest));
            }
        }

        #[rustfmt::skip]
        #[unsafe(export_name = concat!($letter, $name, "_"))]
        unsafe extern "C" fn $fortran(context: Number, scope: Text, top: Text, m: Number, n: Number, a: Elements, lda: Number, ra: *mut c_int, ca: *mut c_int, ldia: Number, rdest: Number, cdest: Number) {
            // SAFETY: BLACS' contract; the arrays of coordinates are there unless `ldia` is -1.
            unsafe {
                let found = Found { rows: matrix(ra), columns: matrix(ca), leading: *ldia };
                let matrix = whole(Named::General, *m, *n, a, *lda);
                let how = (letter(scope), letter(top));
                calls::combine(*context, how, $operation, &matrix, Some(found), (*rdest, *cdest));
            }
        }
    };
}

element!(integers, "i", Element::Int);
element!(singles, "s", Element::Single);
element!(doubles, "d", Element::Double);
element!(complexes, "c", Element::Complex);
element!(double_complexes, "z", Element::DoubleComplex);
