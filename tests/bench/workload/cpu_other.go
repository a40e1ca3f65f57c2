//go:build !unix

package workload

import "time"

// CPU is not known here.
func CPU() time.Duration { return 0 }
