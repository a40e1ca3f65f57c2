package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement/moves"
	"berth/shared/placement/rebalance"
)

// balanceSteps bounds the search of a case. It is as long as that of a small cluster.
const balanceSteps = 200_000

// rebalancing returns what the case says about balancing: the metrics whose load is gathered, how
// many nodes should have none of it, or that thresholds decide, and whether these are over all domains.
func (c *Config) rebalancing() *cluster.Rebalancing {
	out := &cluster.Rebalancing{Enabled: true}
	for metric, gathers := range c.Gathered {
		out.EmptyOverDomains = out.EmptyOverDomains || gathers && c.EmptyPolicy[metric] == 0
		if n := c.Empty[metric]; gathers && n < 1 {
			out.EmptyMetrics, out.EmptyShare = append(out.EmptyMetrics, metric), n
		} else if gathers {
			out.EmptyMetrics, out.EmptyInstances = append(out.EmptyMetrics, metric), int(n)
		}
	}
	return out
}

// planBalance plans the moves that balance the cluster, and carries them out.
func (s *session) planBalance() (*repair, error) {
	if s.balance != nil {
		return s.balance, nil
	}
	w, err := newWorld(s.c)
	if err != nil {
		return nil, err
	}
	plan, err := w.mover.Balance(moves.BalanceRequest{Request: w.moveRequest(),
		Budget: rebalance.Budget{Steps: balanceSteps}, Seed: 1})
	if err != nil {
		return nil, err
	}
	s.balance = &repair{after: w}
	var all []moves.Move
	for _, m := range plan.Moves {
		all = append(all, m.Move)
	}
	s.balance.carryOut(netMoves(all))
	return s.balance, nil
}

func (s *session) countBalanceMoves() (int, error) {
	r, err := s.planBalance()
	if err != nil {
		return 0, err
	}
	return len(r.moves), nil
}

// balanceMoved returns the partitions of the replicas that move.
func (s *session) balanceMoved() ([]string, error) {
	r, err := s.planBalance()
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, m := range r.moves {
		out = append(out, m.Partition)
	}
	return out, nil
}

// checkLeastBalanceMoves checks that at least so many tasks move.
func checkLeastBalanceMoves(s *session, data json.RawMessage) error {
	var least int
	if err := decodeExpectation(data, &least); err != nil {
		return err
	}
	if n, err := s.countBalanceMoves(); err != nil || n < least {
		return fmt.Errorf("%d moves, want at least %d: %w", n, least, err)
	}
	return nil
}

// checkMostBalanceMoves checks that at most so many tasks move.
func checkMostBalanceMoves(s *session, data json.RawMessage) error {
	var most int
	if err := decodeExpectation(data, &most); err != nil {
		return err
	}
	if n, err := s.countBalanceMoves(); err != nil || n > most {
		return fmt.Errorf("%d moves, want at most %d: %w", n, most, err)
	}
	return nil
}

// expectBalanceEnds returns a check of one end of every move that balances the cluster: whether it is in a set
// of nodes is what the check wants.
func expectBalanceEnds(end func(relocation) string, within bool) check {
	return func(s *session, data json.RawMessage) error {
		var nodes []string
		if err := decodeExpectation(data, &nodes); err != nil {
			return err
		}
		r, err := s.planBalance()
		if err != nil {
			return err
		}
		for _, m := range r.moves {
			if slices.Contains(nodes, end(m)) != within {
				return fmt.Errorf("the end %s of %s: in %v is %t, want %t", end(m), m, nodes, !within, within)
			}
		}
		return nil
	}
}

// checkLoadBetween checks that the load of each node is between two numbers after the moves.
func checkLoadBetween(s *session, data json.RawMessage) error {
	var limits [2]int64
	if err := decodeExpectation(data, &limits); err != nil {
		return err
	}
	loads, err := s.loadsAfterBalance()
	if err != nil {
		return err
	}
	for name, load := range loads {
		if load < limits[0] || load > limits[1] {
			return fmt.Errorf("%s has %d, want from %d to %d: %v", name, load, limits[0], limits[1], loads)
		}
	}
	return nil
}

// loadsAfterBalance returns the load of each node after the moves, of all metrics together.
func (s *session) loadsAfterBalance() (map[string]int64, error) {
	r, err := s.planBalance()
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, n := range s.c.Nodes {
		out[n.Name] = 0
	}
	for t := range r.after.snap.Tasks() {
		r.after.snap.LoadsOf(t, func(_ int, load int64) { out[t.Instance] += load })
	}
	return out, nil
}

// emptyAfterBalance returns the nodes that have no load after the moves.
func (s *session) emptyAfterBalance() ([]Node, error) {
	loads, err := s.loadsAfterBalance()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(s.c.Nodes), func(n Node) bool { return loads[n.Name] > 0 }), nil
}

func (s *session) countEmpty() (int, error) {
	empty, err := s.emptyAfterBalance()
	return len(empty), err
}

// checkLeastEmpty checks that at least so many nodes have no load after the moves.
func checkLeastEmpty(s *session, data json.RawMessage) error {
	var least int
	if err := decodeExpectation(data, &least); err != nil {
		return err
	}
	if n, err := s.countEmpty(); err != nil || n < least {
		return fmt.Errorf("%d nodes are empty, want at least %d: %w", n, least, err)
	}
	return nil
}

// countEmptyDomains returns in how many domains there are empty nodes after the moves.
func (s *session) countEmptyDomains(domain func(n Node) *string) (int, error) {
	empty, err := s.emptyAfterBalance()
	names := map[string]bool{}
	for _, n := range empty {
		if name := domain(n); name != nil {
			names[*name] = true
		}
	}
	return len(names), err
}

// apartAfterBalance returns the partitions with a replica that is not beside one of the partition
// that it has an affinity to, after the moves.
func (s *session) apartAfterBalance() ([]string, error) {
	r, err := s.planBalance()
	if err != nil {
		return nil, err
	}
	out := []string{}
	for t := range r.after.snap.Tasks() {
		parent := s.c.Affinity[t.Owner]
		beside := func(o *cluster.Task) bool { return o.Instance == t.Instance }
		if parent != "" && !slices.ContainsFunc(r.after.snap.TasksOf(parent), beside) {
			out = append(out, t.Owner)
		}
	}
	return out, nil
}

// expandCopies replaces replicas that stand for several partitions by one of each, named by a
// number.
func expandCopies(replicas []Replica) (out []Replica) {
	for _, r := range replicas {
		copies := r.Copies
		for n := range max(1, copies) {
			one := r
			if one.Copies = 0; copies > 0 {
				one.Partition = strings.Join([]string{r.Partition, fmt.Sprint(n)}, "-")
			}
			out = append(out, one)
		}
	}
	return out
}
