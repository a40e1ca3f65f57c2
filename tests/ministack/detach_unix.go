//go:build unix

package ministack

import (
	"os/exec"
	"syscall"
)

// detachProcess keeps Ctrl-C of a terminal from the emulator, which ends when its standard input
// does.
func detachProcess(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
