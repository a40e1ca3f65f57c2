package cloud

import (
	"os/exec"
	"syscall"
)

// detachProcess keeps Ctrl-C of a terminal from the process, and ends the process with this one,
// however this one ends.
func detachProcess(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
