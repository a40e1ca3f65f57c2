package embedded

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// template is a SAM template that is being read. What is wrong is collected, each error naming its
// path.
type template struct {
	parameters map[string]any // string, float64 or []any
	resources  map[string]string
	errs       []error
}

// section is one mapping of the template. Reading a key marks it; close complains of the others, so
// that nothing that would matter is passed over.
type section struct {
	t    *template
	path string
	keys map[string]*yaml.Node
	read map[string]bool
}

// attribute is what !GetAtt gives, and !Ref of a resource with an empty name.
type attribute struct{ Resource, Name string }

func (t *template) addError(path, format string, args ...any) {
	t.errs = append(t.errs, fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...)))
}

func (t *template) joinedErrors() error { return errors.Join(t.errs...) }

// openSection opens a mapping; nil nodes are empty ones.
func (t *template) openSection(path string, n *yaml.Node) *section {
	s := &section{t: t, path: path, keys: map[string]*yaml.Node{}, read: map[string]bool{}}
	n = followAlias(n)
	switch {
	case n == nil:
	case n.Kind != yaml.MappingNode || shortIntrinsic(n) != "":
		t.addError(path, "must be a mapping written out, is %s", describeNode(n))
	default:
		for i := 0; i+1 < len(n.Content); i += 2 {
			s.keys[n.Content[i].Value] = n.Content[i+1]
		}
		if name := soleIntrinsic(n); name != "" {
			t.addError(path, "%s is not supported here", name)
			s.keys = map[string]*yaml.Node{}
		}
	}
	return s
}

func describeNode(n *yaml.Node) string {
	if name := shortIntrinsic(n); name != "" {
		return name
	}
	return map[yaml.Kind]string{yaml.SequenceNode: "a list", yaml.ScalarNode: "a value",
		yaml.MappingNode: "a mapping"}[n.Kind]
}

func (s *section) keyNames() []string { return slices.Sorted(maps.Keys(s.keys)) }

func (s *section) hasKey(key string) bool { return s.keys[key] != nil }

func (s *section) keyPath(key string) string { return s.path + "." + key }

func (s *section) childNode(key string) *yaml.Node {
	s.read[key] = true
	return s.keys[key]
}

func (s *section) childSection(key string) *section {
	return s.t.openSection(s.keyPath(key), s.childNode(key))
}

// rejectUnreadKeys complains of every key that was neither read nor is among those that have
// nothing to do with wiring.
func (s *section) rejectUnreadKeys(others ...string) {
	for _, key := range s.keyNames() {
		if !s.read[key] && !slices.Contains(others, key) {
			s.t.addError(s.keyPath(key), "the embedded tier does not know this")
		}
	}
}

// resolvedValue is the resolved value of a key; nil where it is absent or wrong.
func (s *section) resolvedValue(key string) any {
	n := s.childNode(key)
	if n == nil {
		return nil
	}
	v, err := s.t.resolveNode(n, s.keyPath(key))
	if err != nil {
		s.t.errs = append(s.t.errs, err)
		return nil
	}
	return v
}

// boundedNumber is an integer from least to most.
func (s *section) boundedNumber(key string, fallback, least, most int) int {
	if !s.hasKey(key) {
		return fallback
	}
	v := s.resolvedValue(key)
	if text, ok := v.(string); ok {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			v = f
		}
	}
	f, ok := v.(float64)
	switch {
	case v == nil:
	case !ok || f != float64(int(f)):
		s.t.addError(s.keyPath(key), "must be a whole number, is %v", v)
	case int(f) < least || int(f) > most:
		s.t.addError(s.keyPath(key), "must be from %d to %d, is %v", least, most, v)
	default:
		return int(f)
	}
	return fallback
}

func (s *section) boolValue(key string) bool {
	if !s.hasKey(key) {
		return false
	}
	v := s.resolvedValue(key)
	b, ok := v.(bool)
	if !ok && v != nil {
		s.t.addError(s.keyPath(key), "must be true or false, is %v", v)
	}
	return b
}

func (s *section) textValue(key string) string {
	if !s.hasKey(key) {
		return ""
	}
	v := s.resolvedValue(key)
	text, ok := v.(string)
	if !ok && v != nil {
		s.t.addError(s.keyPath(key), "must be text, is %v", v)
	}
	return text
}

// resourceRef is the logical id that the key's !GetAtt (or !Ref, for an empty attribute name) leads
// to; it must be of the type.
func (s *section) resourceRef(key, name, kind string) string {
	v := s.resolvedValue(key)
	a, ok := v.(attribute)
	switch {
	case v == nil && s.hasKey(key):
	case !ok || a.Name != name:
		s.t.addError(s.keyPath(key), "must be !GetAtt of the %s of a resource, is %v", name, v)
	case s.t.resources[a.Resource] != kind:
		s.t.addError(s.keyPath(key), "%s is no %s of this template", a.Resource, kind)
	default:
		return a.Resource
	}
	return ""
}

// allowOnlyValue complains when the key is there and has another value.
func (s *section) allowOnlyValue(key string, allowed any) {
	if v := s.resolvedValue(key); v != nil && v != allowed {
		s.t.addError(s.keyPath(key), "must be %v, is %v", allowed, v)
	}
}

// listNodes is the items of a list, each with its path.
func (s *section) listNodes(key string) []*yaml.Node {
	n := followAlias(s.childNode(key))
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode || shortIntrinsic(n) != "" {
		s.t.addError(s.keyPath(key), "must be a list written out, is %s", describeNode(n))
		return nil
	}
	return n.Content
}

func (s *section) listItemPath(key string, i int) string {
	return s.keyPath(key) + "[" + strconv.Itoa(i) + "]"
}

func secondsToDuration(n int) time.Duration { return time.Duration(n) * time.Second }
