//go:build !unix

package workload

import "time"

// cpu is not known here.
func cpu() time.Duration { return 0 }
