package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// session is one case on its way: what it asks for is done once, when the first expectation wants to know.
type session struct {
	c         *Case
	w         *world
	placement *placed
	repair    *repair
}

// run compares all that the case expects. The panic of a function under test fails the case and no other.
func (e *entry) run() (err error) {
	if e.err != nil {
		return e.err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if len(e.Expected) == 0 {
		return errors.New("it expects nothing")
	}
	s := &session{c: &e.Case}
	var wrong []string
	for _, field := range slices.Sorted(maps.Keys(e.Expected)) {
		check := e.expectation(field)
		if check == nil {
			return fmt.Errorf("unknown expectation %q", field)
		}
		if err := check(s, e.Expected[field]); err != nil {
			wrong = append(wrong, field+": "+err.Error())
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// check compares one expectation.
type check func(s *session, want json.RawMessage) error

// equals makes a check of a function that finds the value to compare.
func equals[T any](get func(s *session) (T, error)) check {
	return func(s *session, data json.RawMessage) error {
		var want T
		if err := json.Unmarshal(data, &want); err != nil {
			return err
		}
		got, err := get(s)
		if err != nil {
			return err
		}
		return same(got, want)
	}
}

func same(got, want any) error {
	g, w := fmt.Sprint(got), fmt.Sprint(want)
	if g != w {
		return fmt.Errorf("got %s, want %s", g, w)
	}
	return nil
}

// world is the case as rows; an error is that of its configuration or constraints.
func (s *session) world() (*world, error) {
	if s.w == nil {
		w, err := newWorld(s.c)
		if err != nil {
			return nil, err
		}
		s.w = w
	}
	return s.w, nil
}
