package ministack

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// KillFunctions kills the functions that run now and returns their number. They are the processes
// whose program is in this emulator's own folder.
func (s *Server) KillFunctions() (killed int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		program, err := os.Readlink(filepath.Join(dir, "exe"))
		pid, numeric := strconv.Atoi(filepath.Base(dir))
		if err != nil || numeric != nil || !strings.HasPrefix(program, s.dir+string(filepath.Separator)) {
			continue
		}
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}
