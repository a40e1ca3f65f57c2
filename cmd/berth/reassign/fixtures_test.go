package reassign_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"berth/cmd/berth/reassign"
	"berth/shared/placement/rebalance"
)

// An instance is a drawn problem in the challenge's format.
type instance struct {
	model string
	start []int32
}

// read returns the problem as the command has it.
func (x *instance) read(t *testing.T) *rebalance.Problem {
	t.Helper()
	p, err := reassign.ReadModel(strings.NewReader(x.model))
	if err == nil {
		err = reassign.ReadAssignment(strings.NewReader(strings.Trim(fmt.Sprint(x.start), "[]")), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drawInstance draws an instance whose start keeps the rules. The machines are nearly full, so that
// the rules matter.
func drawInstance(seed uint64, machines, processes int) *instance {
	random := rand.New(rand.NewPCG(seed, 1))
	var out strings.Builder
	put := func(numbers ...any) { fmt.Fprintln(&out, numbers...) }
	const resources = 3
	put(resources)
	for r := range resources {
		put(min(r, 1)*random.IntN(2), random.IntN(10))
	}
	services := processes/3 + 1
	x := &instance{start: make([]int32, processes)}
	service, used := make([]int, processes), make([][]int, machines)
	needs := make([][]int, processes)
	occupied := map[[2]int]bool{}
	for i := range used {
		used[i] = make([]int, resources)
	}
	for p := range x.start {
		service[p], needs[p] = random.IntN(services), make([]int, resources)
		x.start[p] = int32(random.IntN(machines))
		for occupied[[2]int{service[p], int(x.start[p])}] {
			service[p], x.start[p] = random.IntN(services), int32(random.IntN(machines))
		}
		occupied[[2]int{service[p], int(x.start[p])}] = true
		for r := range resources {
			needs[p][r] = random.IntN(100)
			used[x.start[p]][r] += needs[p][r]
		}
	}
	locations, neighborhoods := min(machines, 4), min(machines, 3)
	put(machines)
	for i := range machines {
		row := []any{i % neighborhoods, i % locations}
		for r := range resources {
			row = append(row, used[i][r]+random.IntN(120))
		}
		for range resources {
			row = append(row, random.IntN(300))
		}
		for j := range machines {
			row = append(row, min(1, max(i-j, j-i))*random.IntN(5))
		}
		put(row...)
	}
	putServices(put, random, x.start, service, services, locations, neighborhoods)
	put(processes)
	for p := range service {
		put(service[p], needs[p][0], needs[p][1], needs[p][2], random.IntN(50))
	}
	put(1)
	put(0, 1, random.IntN(3))
	put(random.IntN(10))
	put(1, 2, 1)
	x.model = out.String()
	return x
}

// putServices writes services with rules that hold at the start.
func putServices(put func(...any), random *rand.Rand, start []int32, service []int, services, locations, hoods int) {
	in := func(s, modulo int) map[int]bool {
		out := map[int]bool{}
		for p := range start {
			if service[p] == s {
				out[int(start[p])%modulo] = true
			}
		}
		return out
	}
	put(services)
	for s := range services {
		row := []any{random.IntN(len(in(s, locations)) + 1)}
		var depends []any
		for range 2 {
			d, fits := random.IntN(services), true
			for hood := range in(s, hoods) {
				fits = fits && in(d, hoods)[hood]
			}
			if fits && d != s && len(depends) == 0 {
				depends = append(depends, d)
			}
		}
		put(append(append(row, len(depends)), depends...)...)
	}
}
