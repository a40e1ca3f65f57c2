// Package ministack runs MiniStack, an emulator of AWS that runs Lambda functions without Docker,
// on a free loopback port. tools/ministack.txt pins its version; `make test` and `make local` fetch
// it into .cache/. The emulator ends with the process that started it.
package ministack
