package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"berth/shared/cluster"
)

// expectations has the checks of cases about a cluster, by field.
var expectations = map[string]check{
	"logic":           expectValue((*session).domainLogic),
	"placed":          expectValue((*session).countPlaced),
	"placed_on":       checkPlacedOn,
	"per_node":        checkPerNode,
	"per_partition":   checkPerPartition,
	"placeable_nodes": expectSet((*session).placeableNodes),
	"dropped": expectValue(func(s *session) (int, error) {
		tasks,
			err := s.tasksToStop()
		return len(tasks), err
	}),
	"dropped_from": checkDroppedFrom,
	"create_rejected": expectValue(func(s *session) (bool, error) {
		why,
			err := s.refusalReason()
		return why != "", err
	}),
	"create_accepted": expectValue(func(s *session) (bool, error) {
		why,
			err := s.refusalReason()
		return why == "", err
	}),
	"reason": expectValue((*session).refusalReason),
	"violation": expectValue(func(s *session) (bool, error) {
		r, err := s.violatedRules()
		return len(r) > 0,
			err
	}),
	"violated":         expectSet((*session).violatedRules),
	"moves":            expectValue((*session).countMoves),
	"min_moves":        expectValue((*session).countMoves),
	"move_from_any_of": expectMoveEnds(func(r relocation) string { return r.From }),
	"move_to_any_of":   expectMoveEnds(func(r relocation) string { return r.To }),
	"moved":            checkMoved,
	"final_counts":     checkFinalCounts,
	"kept":             checkKept,
	"forbidden_nodes":  checkForbidden,
	"placed_without_moves": expectValue(func(s *session) (int, error) {
		p,
			err := s.placeTasks()
		return p.countPlaced(), err
	}),
	"placed_with_moves": expectValue(func(s *session) (int, error) {
		r,
			err := s.planRepair()
		return r.countPlaced(), err
	}),
	"balanced":                checkBalanced,
	"balance_moves":           expectValue((*session).countBalanceMoves),
	"balance_moves_least":     checkLeastBalanceMoves,
	"balance_moves_most":      checkMostBalanceMoves,
	"balance_moved":           expectSet((*session).balanceMoved),
	"balance_from_any_of":     expectBalanceEnds(func(r relocation) string { return r.From }, true),
	"balance_to_any_of":       expectBalanceEnds(func(r relocation) string { return r.To }, true),
	"balance_forbidden_nodes": expectBalanceEnds(func(r relocation) string { return r.To }, false),
	"balance_load_between":    checkLoadBetween,
	"balance_empty":           expectValue((*session).countEmpty),
	"balance_empty_fault_domains": expectValue(func(s *session) (int, error) {
		return s.countEmptyDomains(func(n Node) *string { return n.Fault })
	}),
	"balance_empty_upgrade_domains": expectValue(func(s *session) (int, error) {
		return s.countEmptyDomains(func(n Node) *string { return n.Upgrade })
	}),
	"balance_load":        expectValue((*session).loadsAfterBalance),
	"balance_empty_least": checkLeastEmpty,
	"balance_apart":       expectSet((*session).apartAfterBalance),
	"scaled":              expectValue((*session).scaledTarget),
	"config_rejected":     expectValue((*session).configurationRefused),
}

// checkFor returns the check of a field, nil for an unknown one.
func (c *Case) checkFor(field string) check {
	if c.Kind == "constraint_expr" {
		return expressionExpectations[field]
	}
	if q, ok := quantities[field]; ok {
		return q.check
	}
	return expectations[field]
}

// expectSet returns a check of names whose order does not matter.
func expectSet(get func(s *session) ([]string, error)) check {
	return func(s *session, data json.RawMessage) error {
		var want []string
		if err := decodeExpectation(data, &want); err != nil {
			return err
		}
		got, err := get(s)
		if err != nil {
			return err
		}
		return compareValues(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
	}
}

// domainLogic returns which rule the first partition's domains follow.
func (s *session) domainLogic() (string, error) {
	w, err := s.loadWorld()
	if err != nil {
		return "", err
	}
	d := w.engine.ServiceDomains(w.requestOfOne(w.partitions[0]))
	if d == nil {
		return "", errors.New("no domain policy governs the service")
	}
	if fault, upgrade := d.UsesQuorum(); fault || upgrade {
		return "quorum", nil
	}
	return "maxdiff", nil
}

func checkDroppedFrom(s *session, data json.RawMessage) error {
	tasks, err := s.tasksToStop()
	if err != nil {
		return err
	}
	return compareNodeSets(tasks, data)
}

// configurationRefused reports whether the cluster's configuration is refused.
func (s *session) configurationRefused() (bool, error) {
	return cluster.CheckConfiguration(s.c.configuration()) != nil, nil
}

// decodeExpectation decodes an expectation. Unknown fields are errors.
func decodeExpectation(data []byte, into any) error {
	if err := decodeStrict(data, into); err != nil {
		return fmt.Errorf("reading the expectation %s: %w", data, err)
	}
	return nil
}
