package reassign_test

import (
	"fmt"
	"strconv"
	"strings"
)

// This file states the machine reassignment problem a second time, from its published statement,
// and shares no code with what it checks.

// model is what a model file says.
type model struct {
	transient, loadWeight []int64
	neighborhood          []int64
	location              []int64
	capacity, safety      [][]int64 // per machine and resource
	distance              [][]int64
	spread                []int64
	dependencies          [][]int64
	service               []int64 // per process
	requirement           [][]int64
	moveCost              []int64
	balances              [][4]int64 // two resources, target, weight
	processWeight         int64
	serviceWeight         int64
	machineWeight         int64
}

// parseModel reads a model that is known to be well-formed.
func parseModel(text string) *model {
	words := strings.Fields(text)
	next := func() int64 {
		n, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			panic(err)
		}
		words = words[1:]
		return n
	}
	many := func(n int64) (out []int64) {
		for range n {
			out = append(out, next())
		}
		return out
	}
	m := &model{}
	resources := next()
	for range resources {
		m.transient, m.loadWeight = append(m.transient, next()), append(m.loadWeight, next())
	}
	machines := next()
	for range machines {
		m.neighborhood, m.location = append(m.neighborhood, next()), append(m.location, next())
		m.capacity, m.safety = append(m.capacity, many(resources)), append(m.safety, many(resources))
		m.distance = append(m.distance, many(machines))
	}
	for range next() {
		m.spread = append(m.spread, next())
		m.dependencies = append(m.dependencies, many(next()))
	}
	for range next() {
		m.service = append(m.service, next())
		m.requirement = append(m.requirement, many(resources))
		m.moveCost = append(m.moveCost, next())
	}
	for range next() {
		m.balances = append(m.balances, [4]int64{next(), next(), next(), next()})
	}
	m.processWeight, m.serviceWeight, m.machineWeight = next(), next(), next()
	return m
}

// usage returns what the processes use of each resource on each machine.
func (m *model) usage(at []int32) [][]int64 {
	out := make([][]int64, len(m.location))
	for i := range out {
		out[i] = make([]int64, len(m.transient))
	}
	for p, i := range at {
		for r, n := range m.requirement[p] {
			out[i][r] += n
		}
	}
	return out
}

// broken returns the first hard constraint that the assignment breaks, or "".
func (m *model) broken(start, at []int32) string {
	used := m.usage(at)
	for p, i := range at {
		for r := range m.transient {
			if m.transient[r] == 1 && start[p] != i {
				used[start[p]][r] += m.requirement[p][r]
			}
		}
	}
	for i := range used {
		for r, n := range used[i] {
			if n > m.capacity[i][r] {
				return fmt.Sprintf("machine %d uses %d of resource %d and has %d", i, n, r, m.capacity[i][r])
			}
		}
	}
	type place struct{ service, where int64 }
	machines, locations, neighborhoods := map[place]int{}, map[place]bool{}, map[place]bool{}
	for p, i := range at {
		s := m.service[p]
		if machines[place{s, int64(i)}]++; machines[place{s, int64(i)}] > 1 {
			return fmt.Sprintf("two processes of service %d share machine %d", s, i)
		}
		locations[place{s, m.location[i]}], neighborhoods[place{s, m.neighborhood[i]}] = true, true
	}
	spread := make([]int64, len(m.spread))
	for l := range locations {
		spread[l.service]++
	}
	for s := range spread {
		if spread[s] < m.spread[s] {
			return fmt.Sprintf("service %d is in %d locations, expected %d", s, spread[s], m.spread[s])
		}
	}
	for n := range neighborhoods {
		for _, d := range m.dependencies[n.service] {
			if !neighborhoods[place{d, n.where}] {
				return fmt.Sprintf("service %d is in neighborhood %d without service %d", n.service, n.where, d)
			}
		}
	}
	return ""
}

// cost returns the objective.
func (m *model) cost(start, at []int32) (sum int64) {
	used := m.usage(at)
	for i := range used {
		for r, n := range used[i] {
			sum += m.loadWeight[r] * max(0, n-m.safety[i][r])
		}
		for _, b := range m.balances {
			free := func(r int64) int64 { return m.capacity[i][r] - used[i][r] }
			sum += b[3] * max(0, b[2]*free(b[0])-free(b[1]))
		}
	}
	moved := make([]int64, len(m.spread))
	for p, i := range at {
		if i != start[p] {
			sum += m.processWeight * m.moveCost[p]
			moved[m.service[p]]++
		}
		sum += m.machineWeight * m.distance[start[p]][i]
	}
	most := int64(0)
	for _, n := range moved {
		most = max(most, n)
	}
	return sum + m.serviceWeight*most
}
