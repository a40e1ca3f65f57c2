package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"berth/shared/wire/awsjson"
	"berth/shared/wire/ecsapi"
	"berth/shared/wire/eksapi"
	"berth/tests/servicemodel"
)

const root = "../.."

// fetched returns botocore's models, or skips the test where they are not fetched.
func fetched(t *testing.T) *servicemodel.Models {
	t.Helper()
	m, err := servicemodel.Load(root)
	if errors.Is(err, servicemodel.ErrNotFetched) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPage(t *testing.T) {
	page, err := newPage(root, fetched(t))
	if err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(filepath.Join(root, pagePath))
	if err != nil {
		t.Fatal(err)
	}
	if string(now) != page {
		t.Error("docs/operations.md is stale: `go run ./tests/operations` writes it anew")
	}
}

// Each operation of both models is served, or refused by name with a reason; what is refused
// exists.
func TestEveryOperationOfTheModels(t *testing.T) {
	m := fetched(t)
	served, refused := ecsapi.Operations(ecsapi.Options{}), ecsapi.RefusedOperations()
	for op := range m.ECS.Operations {
		if _, is := served[op]; !is || !slices.Contains(awsjson.OperationNames(), op) {
			t.Errorf("%s of the ECS API is neither served nor refused with a reason", op)
		}
	}
	for op := range refused {
		if _, is := m.ECS.Operations[op]; !is || refused[op] == "" {
			t.Errorf("%s, which is refused, is no operation of the ECS API, or has no reason", op)
		}
	}
	for op, operation := range m.EKS.Operations {
		e, is := eksapi.Operations()[op]
		if !is {
			e, is = eksapi.RefusedOperations()[op]
		}
		if !is || e.Method != operation.HTTP.Method || pathPattern(e.Path) != pathPattern(operation.HTTP.RequestURI) {
			t.Errorf("%s of the EKS API is neither served nor refused with a reason at its path: %v", op, e)
		}
	}
}

// Members that are refused are in the model of their operation.
func TestRefusedMembersExist(t *testing.T) {
	m := fetched(t)
	for op, members := range ecsapi.RefusedMembers() {
		for _, refusal := range members {
			if m.ECS.FindMember(op, refusal.Member) == "" || refusal.Reason == "" {
				t.Errorf("%s.%s is not in the model, or has no reason", op, refusal.Member)
			}
		}
	}
	for op, members := range eksapi.RefusedMembers() {
		for member := range members {
			if m.EKS.FindMember(op, member) == "" {
				t.Errorf("%s.%s is not in the model", op, member)
			}
		}
	}
}
