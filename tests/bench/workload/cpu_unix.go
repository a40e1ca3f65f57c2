//go:build unix

package workload

import (
	"syscall"
	"time"
)

// CPU returns the time that the process has had on all cores.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
