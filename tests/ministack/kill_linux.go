package ministack

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// KillFunctions ends the functions that run now, without a word, and says how many there were. They are the processes
// whose program lies in this emulator's own folder.
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
