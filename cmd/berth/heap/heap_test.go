package heap

import (
	"context"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestHeapGrowsIntoItsRoom(t *testing.T) {
	for alive, want := range map[uint64]int{
		0: maxPercent, 10 << 20: maxPercent, 192 << 20: maxPercent, 256 << 20: 200, 384 << 20: 100,
		500 << 20: defaultPercent, 4 << 30: defaultPercent,
	} {
		got := percentFor(alive)
		if got != want {
			t.Errorf("%d MiB alive: %d %%, want %d %%", alive>>20, got, want)
		}
		if size := alive + alive*uint64(got)/100; size > max(room, 2*alive) {
			t.Errorf("%d MiB alive grow to %d MiB", alive>>20, size>>20)
		}
	}
}

// percent returns what is set, and leaves it.
func percent() int {
	n := debug.SetGCPercent(defaultPercent)
	debug.SetGCPercent(n)
	return n
}

func TestTuneEndsAsItBegan(t *testing.T) {
	t.Setenv("GOGC", "")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		go Tune(ctx)
		synctest.Wait()
		if got := percent(); got <= defaultPercent {
			t.Errorf("a small heap grows by %d %%", got)
		}
		<-time.After(time.Minute)
		stop()
		synctest.Wait()
		if got := percent(); got != defaultPercent {
			t.Errorf("left at %d %%", got)
		}
	})
}

func TestTuneLeavesWhatTheUserHasSet(t *testing.T) {
	t.Setenv("GOGC", "50")
	before := percent()
	Tune(t.Context()) // returns at once
	if got := percent(); got != before {
		t.Errorf("%d %%, want %d %%", got, before)
	}
}
