package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"berth/shared/cluster"
)

// expectations are those of a cluster.
var expectations = map[string]check{
	"logic":                equals((*session).logic),
	"placed":               equals((*session).countPlaced),
	"placed_on":            checkPlacedOn,
	"per_node":             checkPerNode,
	"per_partition":        checkPerPartition,
	"placeable_nodes":      set((*session).placeable),
	"dropped":              equals(func(s *session) (int, error) { tasks, err := s.stops(); return len(tasks), err }),
	"dropped_from":         checkDroppedFrom,
	"create_rejected":      equals(func(s *session) (bool, error) { why, err := s.refusal(); return why != "", err }),
	"create_accepted":      equals(func(s *session) (bool, error) { why, err := s.refusal(); return why == "", err }),
	"reason":               equals((*session).refusal),
	"violation":            equals(func(s *session) (bool, error) { r, err := s.violated(); return len(r) > 0, err }),
	"violated":             set((*session).violated),
	"moves":                equals((*session).countMoves),
	"min_moves":            equals((*session).countMoves),
	"move_from_any_of":     among(func(r relocation) string { return r.From }),
	"move_to_any_of":       among(func(r relocation) string { return r.To }),
	"moved":                checkMoved,
	"final_counts":         checkFinalCounts,
	"kept":                 checkKept,
	"forbidden_nodes":      checkForbidden,
	"placed_without_moves": equals(func(s *session) (int, error) { p, err := s.place(); return p.count(), err }),
	"placed_with_moves":    equals(func(s *session) (int, error) { r, err := s.mend(); return r.count(), err }),
	"balanced":             checkBalanced,
	"config_rejected":      equals((*session).configurationRefused),
}

// expectation is what checks a field, nil for an unknown one.
func (c *Case) expectation(field string) check {
	if c.Kind == "constraint_expr" {
		return expressionExpectations[field]
	}
	if q, ok := quantities[field]; ok {
		return q.check
	}
	return expectations[field]
}

// set makes a check of a function that finds names, whose order does not matter.
func set(get func(s *session) ([]string, error)) check {
	return func(s *session, data json.RawMessage) error {
		var want []string
		if err := strict(data, &want); err != nil {
			return err
		}
		got, err := get(s)
		if err != nil {
			return err
		}
		return same(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
	}
}

// logic is which rule the first partition's domains follow.
func (s *session) logic() (string, error) {
	w, err := s.world()
	if err != nil {
		return "", err
	}
	d := w.engine.ServiceDomains(w.one(w.partitions[0]))
	if d == nil {
		return "", errors.New("no domain policy governs the service")
	}
	if fault, upgrade := d.UsesQuorum(); fault || upgrade {
		return "quorum", nil
	}
	return "maxdiff", nil
}

func checkDroppedFrom(s *session, data json.RawMessage) error {
	tasks, err := s.stops()
	if err != nil {
		return err
	}
	return lie(tasks, data)
}

// configurationRefused reports whether the cluster's configuration is refused.
func (s *session) configurationRefused() (bool, error) {
	return cluster.CheckConfiguration(s.c.configuration()) != nil, nil
}

// strict decodes an expectation; a field that is not known is an error.
func strict(data []byte, into any) error {
	if err := decodeStrict(data, into); err != nil {
		return fmt.Errorf("reading the expectation %s: %w", data, err)
	}
	return nil
}
