//go:build !unix

package workload

import "time"

// CPU returns 0: the time is not known on this system.
func CPU() time.Duration { return 0 }
