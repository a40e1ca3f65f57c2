package wiring

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader resolves a template with the defaults of its parameters. A reference to a resource becomes
// its logical id.
type reader struct {
	parameters map[string]any
	resources  map[string]resource
	order      []string // of the resources
	memory     int      // of functions that say nothing else, in MB
}

type resource struct {
	kind       string
	properties map[string]any
}

func (r *reader) readAll(root *yaml.Node) error {
	var doc struct {
		Parameters map[string]struct {
			Type    string `yaml:"Type"`
			Default string `yaml:"Default"`
		} `yaml:"Parameters"`
		Globals struct {
			Function struct {
				MemorySize int `yaml:"MemorySize"`
			} `yaml:"Function"`
		} `yaml:"Globals"`
		Resources yaml.Node `yaml:"Resources"`
	}
	if err := root.Decode(&doc); err != nil {
		return err
	}
	r.memory = doc.Globals.Function.MemorySize
	for name, p := range doc.Parameters {
		r.parameters[name] = p.Default
		if p.Type == "CommaDelimitedList" {
			list := []any{}
			for _, item := range strings.Split(p.Default, ",") {
				list = append(list, item)
			}
			r.parameters[name] = list
		}
	}
	for i := 0; i+1 < len(doc.Resources.Content); i += 2 {
		id := doc.Resources.Content[i].Value
		body := mapOf(r.resolve(doc.Resources.Content[i+1]))
		r.resources[id] = resource{kind: textOf(body["Type"]), properties: mapOf(body["Properties"])}
		r.order = append(r.order, id)
	}
	return nil
}

// resolve returns the value of a node. References become a parameter's default or a logical id,
// text with placeholders stays as it is, and any other function of CloudFormation becomes nil.
func (r *reader) resolve(n *yaml.Node) any {
	switch n.Tag {
	case "!Ref":
		if value, ok := r.parameters[n.Value]; ok {
			return value
		}
		return n.Value
	case "!GetAtt":
		id, _, _ := strings.Cut(n.Value, ".")
		return id
	case "!Sub":
		return n.Value
	}
	switch {
	case strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!"):
		return nil
	case n.Kind == yaml.MappingNode:
		all := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			all[n.Content[i].Value] = r.resolve(n.Content[i+1])
		}
		return all
	case n.Kind == yaml.SequenceNode:
		all := make([]any, len(n.Content))
		for i, item := range n.Content {
			all[i] = r.resolve(item)
		}
		return all
	}
	var value any
	if n.Decode(&value) != nil {
		return nil
	}
	return value
}

func mapOf(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func listOf(v any) []any {
	l, _ := v.([]any)
	return l
}

// textOf returns a scalar as text, or nothing for an absent value.
func textOf(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
