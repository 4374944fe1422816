#!/bin/bash
# under_qemu.sh PROGRAM [ARGUMENT...]: runs a program that was built for AArch64, as ctest does,
# with the qemu that scripts/setup.sh fetched, if it did.
# QEMU_CPU=cortex-a72 makes it a processor without `dc cvap` and LSE's atomics.

# Tells tests of what cannot be had there (src/testing/emulated.h).
export LAMELLA_TEST_EMULATED=1
PATH=$(dirname "$0")/../build/qemu/usr/bin:$PATH exec qemu-aarch64 "$@"
