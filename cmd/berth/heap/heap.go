package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Bounds of how much the heap grows between two collections, in percent of what is alive. Above
// defaultPercent of room, it grows as Go lets it by default. A small heap does not grow to the whole
// room, which would be most of the memory of a small machine.
const (
	defaultPercent = 100
	maxPercent     = 300
)

// room is how large the heap may get before garbage is collected. With the pages of two files of
// 50,000 tasks, `berth up` stays below 1.5 GB.
const room = 768 << 20

// percentFor returns the growth after which garbage is collected, for a heap with so many bytes
// alive.
//
// Example: with 256 MiB alive and 768 MiB of room, the heap grows by 200 %. With 500 MiB alive it
// grows by 100 % to 1,000 MiB, as it would by default.
func percentFor(alive uint64) int {
	if alive >= room {
		return defaultPercent
	}
	return int(min(maxPercent, max(defaultPercent, (room-alive)*100/max(alive, 1))))
}

// Tune sets the growth of the heap every few seconds, until ctx is done. It does nothing if the user
// has set it (GOGC).
func Tune(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	alive := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // after the last collection
	pause := time.NewTicker(5 * time.Second)
	defer pause.Stop()
	for now := 0; ; {
		metrics.Read(alive)
		// Setting it stops the process for a moment, so small differences are left.
		if next := percentFor(alive[0].Value.Uint64()); next-now > 10 || now-next > 10 {
			debug.SetGCPercent(next)
			now = next
		}
		select {
		case <-ctx.Done():
			debug.SetGCPercent(defaultPercent)
			return
		case <-pause.C:
		}
	}
}
