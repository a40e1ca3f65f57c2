package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/tests/wiring"
)

const (
	triggerPage = "docs/triggers.md"
	cloudPage   = "docs/cloud.md"
	// The table in docs/cloud.md is between these lines.
	beginTable = "<!-- written by go run ./tests/triggers -->"
	endTable   = "<!-- end -->"
)

const introduction = `# What invokes each function

Generated from [template.yaml](../template.yaml) by ` + "`go run ./tests/triggers`" + `. Defaults of parameters
stand for the parameters. Events must also come from this account and Region.
[state.md](state.md) describes the rows.
`

// newPages returns the text of each page by its path.
func newPages(root string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err != nil {
		return nil, err
	}
	t, err := wiring.Read(string(text))
	if err != nil {
		return nil, err
	}
	cloud, err := os.ReadFile(filepath.Join(root, cloudPage))
	if err != nil {
		return nil, err
	}
	before, rest, found := strings.Cut(string(cloud), beginTable)
	_, after, ended := strings.Cut(rest, endTable)
	if !found || !ended {
		return nil, fmt.Errorf("%s has no lines %s and %s", cloudPage, beginTable, endTable)
	}
	return map[string]string{
		triggerPage: newTriggerPage(t),
		cloudPage:   before + beginTable + "\n\n" + newSummary(t) + "\n" + endTable + after,
	}, nil
}

// newSummary returns the table of functions, and the number of queues.
func newSummary(t *wiring.Template) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d functions, and %d queues with a dead-letter queue each:\n\n"+
		"| function | is invoked by |\n| --- | --- |\n", len(t.Functions), len(t.Queues))
	for _, f := range t.Functions {
		var by []string
		for _, trigger := range f.Triggers {
			by = append(by, summarize(trigger))
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Name, strings.Join(by, "; "))
	}
	return b.String()
}

func summarize(t wiring.Trigger) string {
	switch t.Kind {
	case wiring.Stream:
		return "the table's stream, " + count(rowKinds(t), "kind of row", "kinds of rows")
	case wiring.Messages:
		var from []string
		for _, c := range t.Cases {
			if name := "`" + c.From + "`"; !slices.Contains(from, name) {
				from = append(from, name)
			}
		}
		return fmt.Sprintf("`%s`, from %s", t.Queue, strings.Join(from, ", "))
	case wiring.Schedule:
		return "a schedule, `" + t.Rate + "`"
	}
	return "its function URL"
}

func rowKinds(t wiring.Trigger) int {
	kinds := map[string]bool{}
	for _, c := range t.Cases {
		kinds[rowsOf(c)] = true
	}
	return len(kinds)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// newTriggerPage returns the page that lists every kind of record, event and message.
func newTriggerPage(t *wiring.Template) string {
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString("\n## Queues\n\n| queue | is fed by | invokes | a failed message returns after | dead letters |\n" +
		"| --- | --- | --- | --- | --- |\n")
	for _, q := range t.Queues {
		fmt.Fprintf(&b, "| `%s` | `%s` | `%s` | %s s | `%s`, after %s receives |\n", q.Name,
			strings.Join(q.Senders, "`, `"), q.Receiver, q.Visibility, q.DeadLetters, q.Receives)
	}
	for _, f := range t.Functions {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", f.Name, f.Description)
		for _, trigger := range f.Triggers {
			writeTrigger(&b, trigger)
		}
	}
	return b.String()
}

func writeTrigger(b *strings.Builder, t wiring.Trigger) {
	batch := fmt.Sprintf("at most %s at a time, gathered for %s s", t.Batch, cmp.Or(t.Window, "0"))
	if t.Partial {
		batch += "; the answer names those that failed"
	}
	switch t.Kind {
	case wiring.URL:
		b.WriteString("\n**Function URL**: each request that IAM has authorized.\n")
	case wiring.Schedule:
		fmt.Fprintf(b, "\n**%s**: a schedule, `%s`, with the input `%s`.\n", t.Name, t.Rate, t.Input)
	case wiring.Stream:
		fmt.Fprintf(b, "\n**%s**: records of the table's stream, %s.\n\n| rows | change | if |\n| --- | --- | --- |\n",
			t.Name, batch)
		for _, c := range t.Cases {
			fmt.Fprintf(b, "| %s | %s | %s |\n", rowsOf(c), changeOf(c), rowConditions(c))
		}
	case wiring.Messages:
		fmt.Fprintf(b, "\n**%s**: messages of `%s`, %s.\n\n| from | message | if |\n| --- | --- | --- |\n",
			t.Name, t.Queue, batch)
		for _, c := range t.Cases {
			message := "an event: " + testOf(c, "detail-type") + " of `" + testOf(c, "source") + "`"
			if c.Sent {
				message = "a wake-up"
				if t.Queue == "HealthCheckQueue" {
					message = "a question for the first health of tasks"
				}
			}
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", c.From, message, conditions(c, "detail."))
		}
	}
}

// rowsOf names the rows of a record by their sort key.
func rowsOf(c wiring.Case) string {
	if prefix, ok := strings.CutPrefix(testWords(c, "dynamodb.Keys.sk.S"), "begins with "); ok {
		return "`" + prefix + "…`"
	}
	return "`" + testOf(c, "dynamodb.Keys.sk.S") + "`"
}

func changeOf(c wiring.Case) string {
	if change := testOf(c, "eventName"); change != "" {
		return change
	}
	return "any"
}

// testOf returns the value that a field must have.
func testOf(c wiring.Case, path string) string { return strings.TrimPrefix(testWords(c, path), "is ") }

func testWords(c wiring.Case, path string) string {
	for _, condition := range c.Conditions {
		if condition.Path == path {
			return condition.Test
		}
	}
	return ""
}

// rowConditions lists the tests of a row: of what it is now, and of what it was before.
func rowConditions(c wiring.Case) string {
	now, before := conditions(c, "dynamodb.NewImage."), conditions(c, "dynamodb.OldImage.")
	switch {
	case before == "":
		return now
	case now == "":
		return "before, " + before
	}
	return now + "; before, " + before
}

// conditions lists the conditions about fields below a path.
func conditions(c wiring.Case, below string) string {
	var all []string
	for _, condition := range c.Conditions {
		field, ok := strings.CutPrefix(condition.Path, below)
		if !ok {
			continue
		}
		if name, kind, typed := strings.Cut(field, "."); typed && below != "detail." && len(kind) <= len("BOOL") {
			field = name // without DynamoDB's type
		}
		all = append(all, "`"+field+"` "+condition.Test)
	}
	return strings.Join(all, ", ")
}
