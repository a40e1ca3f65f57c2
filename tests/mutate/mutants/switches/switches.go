// Package switches is the source of the file that a package with changes gets: the switches that
// each change is behind. "package switches" becomes the name of that package, so every name here
// begins with mutant.
package switches

import (
	"cmp"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// mutantOn is the number of the change that is made. 0 is none.
var mutantOn = mutantNumber()

// mutantReached is what records which changes are reached, or nil.
var mutantReached = mutantRecorder()

// mutantMost is more changes than a folder has.
const mutantMost = 1 << 20

// mutantMaxHeap is the memory at which a test ends: a change may well fill all there is.
const mutantMaxHeap = 2 << 30

func mutantNumber() int {
	n, err := strconv.Atoi(os.Getenv("MUTANT"))
	if err != nil {
		return 0
	}
	go func() {
		for {
			time.Sleep(100 * time.Millisecond)
			var m runtime.MemStats
			if runtime.ReadMemStats(&m); m.HeapAlloc > mutantMaxHeap {
				os.Stderr.WriteString("the heap has more than 2 GB\n")
				os.Exit(3)
			}
		}
	}()
	return n
}

func mutantRecorder() func(id int) {
	name := os.Getenv("MUTANT_RECORD")
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		panic(err)
	}
	seen := make([]atomic.Bool, mutantMost) // allocates nothing later: some tests count allocations
	return func(id int) {
		if id >= mutantMost || !seen[id].Load() && seen[id].CompareAndSwap(false, true) {
			_, _ = file.WriteString(strconv.Itoa(id) + "\n")
		}
	}
}

// mutantIs reports whether a change is made.
func mutantIs(id int) bool {
	if mutantReached != nil {
		mutantReached(id)
	}
	return mutantOn == id
}

func mutantKeep(id int) bool { return !mutantIs(id) }

func mutantNegate(id int, v bool) bool { return v != mutantIs(id) }

func mutantTrue(id int, v bool) bool { return mutantIs(id) || v }

func mutantFalse(id int, v bool) bool { return !mutantIs(id) && v }

func mutantAnd(id int, a bool, b func() bool) bool {
	if mutantIs(id) {
		return a || b()
	}
	return a && b()
}

func mutantOr(id int, a bool, b func() bool) bool {
	if mutantIs(id) {
		return a && b()
	}
	return a || b()
}

func mutantLess[T cmp.Ordered](id int, a, b T) bool {
	if mutantIs(id) {
		return a <= b
	}
	return a < b
}

func mutantLessEqual[T cmp.Ordered](id int, a, b T) bool {
	if mutantIs(id) {
		return a < b
	}
	return a <= b
}

func mutantGreater[T cmp.Ordered](id int, a, b T) bool {
	if mutantIs(id) {
		return a >= b
	}
	return a > b
}

func mutantGreaterEqual[T cmp.Ordered](id int, a, b T) bool {
	if mutantIs(id) {
		return a > b
	}
	return a >= b
}

type mutantInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

type mutantNumeric interface {
	mutantInteger | ~float32 | ~float64
}

func mutantAdd[T mutantNumeric](id int, a, b T) T {
	if mutantIs(id) {
		return a - b
	}
	return a + b
}

func mutantSubtract[T mutantNumeric](id int, a, b T) T {
	if mutantIs(id) {
		return a + b
	}
	return a - b
}

func mutantMultiply[T mutantNumeric](id int, a, b T) T {
	if mutantIs(id) {
		return a / b
	}
	return a * b
}

func mutantDivide[T mutantNumeric](id int, a, b T) T {
	if mutantIs(id) {
		return a * b
	}
	return a / b
}

func mutantRemainder[T mutantInteger](id int, a, b T) T {
	if mutantIs(id) {
		return a * b
	}
	return a % b
}

func mutantMin[T cmp.Ordered](id int, first T, rest ...T) T {
	for _, v := range rest {
		if mutantIs(id) {
			first = max(first, v)
		} else {
			first = min(first, v)
		}
	}
	return first
}

func mutantMax[T cmp.Ordered](id int, first T, rest ...T) T {
	for _, v := range rest {
		if mutantIs(id) {
			first = min(first, v)
		} else {
			first = max(first, v)
		}
	}
	return first
}
