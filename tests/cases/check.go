package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A session runs one case. Each step runs once, when the first expectation needs it.
type session struct {
	c         *Case
	w         *world
	placement *placed
	repair    *repair
	balance   *repair // what balances the cluster
}

// checkAll compares everything that the case expects. A panic fails this case and no other.
func (e *entry) checkAll() (err error) {
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
		check := e.checkFor(field)
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

// A check compares one expectation.
type check func(s *session, want json.RawMessage) error

// expectValue returns a check of the value that get returns.
func expectValue[T any](get func(s *session) (T, error)) check {
	return func(s *session, data json.RawMessage) error {
		var want T
		if err := json.Unmarshal(data, &want); err != nil {
			return err
		}
		got, err := get(s)
		if err != nil {
			return err
		}
		return compareValues(got, want)
	}
}

func compareValues(got, want any) error {
	g, w := fmt.Sprint(got), fmt.Sprint(want)
	if g != w {
		return fmt.Errorf("got %s, want %s", g, w)
	}
	return nil
}

// loadWorld returns the case as rows. An error is that of its configuration or constraints.
func (s *session) loadWorld() (*world, error) {
	if s.w == nil {
		w, err := newWorld(s.c)
		if err != nil {
			return nil, err
		}
		s.w = w
	}
	return s.w, nil
}
