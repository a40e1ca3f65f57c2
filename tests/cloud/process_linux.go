package cloud

import (
	"os/exec"
	"syscall"
)

// detach keeps Ctrl-C of a terminal from the process, and ends it with this one, however that ends.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
