package servicemodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// CheckBody compares a body with a shape, and returns what the shape does not have. Members of the
// input that are not in the body, but in the path or query, are left out. A body may be empty if
// nothing is required.
func (m *Model) CheckBody(shape string, body []byte) (problems []string) {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return []string{fmt.Sprintf("no JSON: %v", err)}
	}
	c := &checker{model: m}
	c.check(shape, v, "")
	return c.problems
}

type checker struct {
	model    *Model
	problems []string
}

func (c *checker) report(path, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%s: %s", path, fmt.Sprintf(format, args...)))
}

func (c *checker) check(name string, v any, path string) {
	s, ok := c.model.Shapes[name]
	switch {
	case !ok:
		c.report(path, "the model has no shape %q", name)
	case s.Document:
	case s.Type == "structure":
		c.checkStructure(&s, v, path)
	case s.Type == "list":
		items, ok := v.([]any)
		if !ok {
			c.report(path, "%T instead of a list", v)
		}
		for i, item := range items {
			c.check(s.Member.Shape, item, fmt.Sprintf("%s[%d]", path, i))
		}
	case s.Type == "map":
		items, ok := v.(map[string]any)
		if !ok {
			c.report(path, "%T instead of a map", v)
		}
		for _, key := range slices.Sorted(maps.Keys(items)) {
			c.check(s.Value.Shape, items[key], path+"."+key)
		}
	default:
		c.checkScalar(&s, v, path)
	}
}

// checkStructure compares an object with a structure. A member that is null is not given.
func (c *checker) checkStructure(s *Shape, v any, path string) {
	object, ok := v.(map[string]any)
	if !ok {
		c.report(path, "%T instead of a structure", v)
		return
	}
	for _, name := range s.Required {
		if object[name] == nil && s.Members[name].Location == "" {
			c.report(path, "%s is required", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		member, known := s.Members[name]
		switch {
		case !known || member.Location != "":
			c.report(path, "%s is not in the model", name)
		case object[name] != nil:
			c.check(member.Shape, object[name], path+"."+name)
		}
	}
}

// checkScalar compares a value with a scalar. Times are seconds since 1970, as numbers.
func (c *checker) checkScalar(s *Shape, v any, path string) {
	switch s.Type {
	case "string", "blob":
		text, ok := v.(string)
		if !ok {
			c.report(path, "%T instead of text", v)
		} else if len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
			c.report(path, "%q is none of %v", text, s.Enum)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			c.report(path, "%T instead of a boolean", v)
		}
	case "integer", "long", "float", "double", "timestamp":
		n, ok := v.(json.Number)
		f, err := n.Float64()
		if !ok || err != nil {
			c.report(path, "%T instead of a number", v)
		} else if (s.Type == "integer" || s.Type == "long") && f != math.Trunc(f) {
			c.report(path, "%v is no whole number", n)
		}
	default:
		c.report(path, "the type %q is not known here", s.Type)
	}
}
