package main

import (
	"fmt"

	"berth/shared/constraint"
	"berth/shared/snapshot"
)

// expressionExpectations are those of an expression and one node.
var expressionExpectations = map[string]check{
	"parse": equals(func(s *session) (string, error) {
		if _, err := constraint.ParseProperties(s.c.Expression); err != nil {
			return "invalid", nil
		}
		return "ok", nil
	}),
	"matches": equals(func(s *session) (bool, error) {
		matches, _, err := s.evaluate()
		return matches, err
	}),
	"error": equals(func(s *session) (bool, error) {
		_, failed, err := s.evaluate()
		return failed, err
	}),
}

// evaluate is whether the expression matches on the node, and whether its evaluation failed.
func (s *session) evaluate() (matches, failed bool, err error) {
	e, err := constraint.ParseProperties(s.c.Expression)
	if err != nil {
		return false, false, fmt.Errorf("parsing: %w", err)
	}
	view := snapshot.InstanceView{}
	matches, err = e.Evaluate(subject{view.Facts(), s.c.Properties}, s.c.Primary)
	return matches && err == nil, err != nil, nil
}

// subject is a node that has the case's properties and no others.
type subject struct {
	snapshot.Facts
	properties map[string]Text
}

// Property is the value of one of them.
func (s subject) Property(name string) (string, bool) {
	value, ok := s.properties[name]
	return string(value), ok
}
