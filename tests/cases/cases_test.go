package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCases runs the cases of testdata, or of the folder that CASES_DIR names, seen from here or
// from the project.
func TestCases(t *testing.T) {
	dir := cmp.Or(os.Getenv("CASES_DIR"), "testdata")
	if _, err := os.Stat(dir); err != nil && !filepath.IsAbs(dir) {
		dir = filepath.Join("..", "..", dir)
	}
	var out strings.Builder
	failed, err := reportCases(&out, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	if failed > 0 {
		t.Errorf("%d cases failed", failed)
	}
}

func TestUnknownFieldsFail(t *testing.T) {
	for name, text := range map[string]string{
		"Case":        `{"id":"x","kind":"capacity","nodes":[],"colour":1,"expected":{"cluster_capacity":{"m":0}}}`,
		"Node":        `{"id":"x","kind":"capacity","nodes":[{"name":"n","colour":1}],"expected":{"cluster_load":{"m":0}}}`,
		"Expectation": `{"id":"x","kind":"capacity","nodes":[],"expected":{"colour":1}}`,
		"Kind":        `{"id":"x","kind":"colour","nodes":[],"expected":{"cluster_capacity":{"m":0}}}`,
		"Nothing":     `{"id":"x","kind":"capacity","nodes":[],"expected":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			e := decode("f.json", []byte(text))
			if err := e.checkAll(); err == nil {
				t.Error("it passed")
			}
		})
	}
	e := decode("f.json", []byte(`{"id":"x","kind":"capacity","nodes":[],"expected":{"cluster_capacity":{"m":0}}}`))
	if err := e.checkAll(); err != nil {
		t.Errorf("a case without unknown fields: %s", err)
	}
}

func TestWrongExpectationsFail(t *testing.T) {
	entries, err := readCases("testdata")
	if err != nil {
		t.Fatal(err)
	}
	turned := strings.NewReplacer("true", "false", "false", "true", "1", "2", "2", "3", "3", "1", "0", "7", `"ok"`,
		`"invalid"`, `"invalid"`, `"ok"`)
	for _, e := range entries {
		for field, value := range e.Expected {
			switch field {
			case "placed", "violation", "matches", "balanced", "dropped", "create_accepted", "parse", "total":
				e.Expected[field] = []byte(turned.Replace(string(value)))
				if string(e.Expected[field]) != string(value) && e.checkAll() == nil {
					t.Errorf("%s passes with %s %s in place of %s", e.ID, field, e.Expected[field], value)
				}
				e.Expected[field] = value
			}
		}
	}
}
