package main

import (
	"fmt"

	"berth/shared/constraint"
	"berth/shared/snapshot"
)

// expressionExpectations has the checks of cases about an expression and one node, by field.
var expressionExpectations = map[string]check{
	"parse": expectValue(func(s *session) (string, error) {
		if _, err := constraint.ParseProperties(s.c.Expression); err != nil {
			return "invalid", nil
		}
		return "ok", nil
	}),
	"matches": expectValue(func(s *session) (bool, error) {
		matches, _, err := s.evaluateExpression()
		return matches, err
	}),
	"error": expectValue(func(s *session) (bool, error) {
		_, failed, err := s.evaluateExpression()
		return failed, err
	}),
}

// evaluateExpression reports whether the expression matches the node, and whether its evaluation
// failed.
func (s *session) evaluateExpression() (matches, failed bool, err error) {
	e, err := constraint.ParseProperties(s.c.Expression)
	if err != nil {
		return false, false, fmt.Errorf("parsing: %w", err)
	}
	view := snapshot.InstanceView{}
	matches, err = e.Evaluate(subject{view.Facts(), s.c.Properties}, s.c.Primary)
	return matches && err == nil, err != nil, nil
}

// A subject is a node that has the case's properties and no others.
type subject struct {
	snapshot.Facts
	properties map[string]Text
}

// Property returns the value of a property.
func (s subject) Property(name string) (string, bool) {
	value, ok := s.properties[name]
	return string(value), ok
}
