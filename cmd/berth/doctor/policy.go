package doctor

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Texts is a text or a list of texts, as policies have them.
type Texts []string

// UnmarshalJSON reads either.
func (t *Texts) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = Texts{one}
		return nil
	}
	var list []string
	err := json.Unmarshal(raw, &list)
	*t = list
	return err
}

// ParsePolicy reads a policy document, which may have one statement or a list.
func ParsePolicy(document string) (Policy, error) {
	var p struct{ Statement json.RawMessage }
	if err := json.Unmarshal([]byte(document), &p); err != nil {
		return Policy{}, fmt.Errorf("reading a policy: %w", err)
	}
	var one Statement
	if json.Unmarshal(p.Statement, &one) == nil {
		return Policy{Statements: []Statement{one}}, nil
	}
	var list []Statement
	if err := json.Unmarshal(p.Statement, &list); err != nil {
		return Policy{}, fmt.Errorf("reading the statements of a policy: %w", err)
	}
	return Policy{Statements: list}, nil
}

// matchesPattern reports whether a text is the pattern, in which * stands for any text and ? for
// any character. The text may itself have wildcards: "task/*" is covered by "*".
func matchesPattern(pattern, text string) bool {
	for pattern != "" {
		if pattern[0] == '*' {
			rest := strings.TrimLeft(pattern, "*")
			if rest == "" {
				return true
			}
			for i := range len(text) + 1 {
				if matchesPattern(rest, text[min(i, len(text)):]) {
					return true
				}
			}
			return false
		}
		if text == "" || pattern[0] != '?' && pattern[0] != text[0] {
			return false
		}
		pattern, text = pattern[1:], text[1:]
	}
	return text == ""
}

// concernsAction reports whether a statement is about an action. IAM compares actions without case.
func (s *Statement) concernsAction(action string) bool {
	matches := func(pattern string) bool {
		return matchesPattern(strings.ToLower(pattern), strings.ToLower(action))
	}
	if len(s.NotAction) > 0 {
		return !slices.ContainsFunc(s.NotAction, matches)
	}
	return slices.ContainsFunc(s.Action, matches)
}

// concernsResource reports whether a statement is about a resource.
func (s *Statement) concernsResource(resource string) bool {
	return slices.ContainsFunc(s.Resource, func(pattern string) bool { return matchesPattern(pattern, resource) })
}

// sameCondition reports whether two conditions are equal, however they are written. Either may be
// empty.
func sameCondition(a, b json.RawMessage) bool {
	var x, y map[string]map[string]Texts
	if len(a) > 0 && json.Unmarshal(a, &x) != nil || len(b) > 0 && json.Unmarshal(b, &y) != nil {
		return string(a) == string(b)
	}
	return len(x)+len(y) == 0 || reflect.DeepEqual(x, y)
}

// allows reports whether the role's policies allow an action on a resource under a condition: one
// statement allows it without a condition or with the same one, and none denies it without one.
func (r *Role) allows(action, resource string, condition json.RawMessage) bool {
	allowed := false
	for _, p := range r.Policies {
		for i := range p.Statements {
			s := &p.Statements[i]
			if !s.concernsAction(action) || !s.concernsResource(resource) {
				continue
			}
			unconditional := len(s.Condition) == 0
			if s.Effect == "Deny" && unconditional {
				return false
			}
			allowed = allowed || s.Effect == "Allow" && (unconditional || sameCondition(s.Condition, condition))
		}
	}
	return allowed
}

// missingGrants returns what the planned statements allow and the role does not, one text for each
// action: "sqs:SendMessage on arn:...".
func (r *Role) missingGrants(planned []Statement) []string {
	var missing []string
	for _, s := range planned {
		if s.Effect != "Allow" {
			continue
		}
		for _, action := range s.Action {
			var without []string
			for _, resource := range s.Resource {
				if resource != "" && !r.allows(action, resource, s.Condition) {
					without = append(without, resource)
				}
			}
			if len(without) > 0 {
				missing = append(missing, action+" on "+strings.Join(without, ", "))
			}
		}
	}
	return missing
}
