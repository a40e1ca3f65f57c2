package cloud

import (
	"os/exec"
	"syscall"
)

// detachProcess keeps Ctrl-C of a terminal from the process, and ends it with this one, however that ends.
func detachProcess(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
