// Command ask asks what `sam deploy` must know of a new installation, and writes the answers to a
// file that the sam CLI reads from then on. If the file exists it asks nothing.
//
// `make deploy` runs it. Everything else is a parameter of template.yaml with a default, which
// docs/settings.md explains: add it to parameter_overrides in the file.
package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ask FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ask:", err)
		os.Exit(1)
	}
}

// question asks for one value.
type question struct {
	// parameter is the parameter of template.yaml, or empty for what sam itself must know.
	parameter, text string
	// fallback is the answer of an empty line.
	fallback func(answers []string) string
	valid    *regexp.Regexp
	expected string
}

// arns matches a list of ARNs of roles and users, in which * stands for any text, or nothing.
var arns = regexp.MustCompile(`^(arn:aws[a-z-]*:(iam|sts)::[0-9*]{1,12}:[^\s,]+(,arn:aws[a-z-]*:(iam|sts)::[0-9*]{1,12}:[^\s,]+)*)?$`)

const expectedARNs = "ARNs such as arn:aws:iam::123456789012:role/deployer, with commas between them, or nothing"

// The positions of answers that other questions or the file need.
const (
	stackAnswer = iota
	regionAnswer
	writersAnswer
)

// questions are all that is asked.
func questions() []question {
	none := func([]string) string { return "" }
	return []question{
		{"", "Name of the CloudFormation stack", func([]string) string { return "berth" },
			regexp.MustCompile(`^[a-zA-Z][-a-zA-Z0-9]{0,51}$`),
			"a letter, then letters, digits and hyphens, 52 characters at most"},
		{"", "AWS Region", func([]string) string {
			return cmp.Or(os.Getenv("AWS_REGION"),
				os.Getenv("AWS_DEFAULT_REGION"))
		},
			regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`), "a Region such as eu-central-1"},
		{"WriterArns", "Roles and users that may change services, tasks and clusters (ARNs; all others may only read)",
			none, arns, expectedARNs},
		{"NodeGroupManagerArns", "Roles and users that may change node groups and capacity providers (ARNs)",
			func(answers []string) string { return answers[writersAnswer] }, arns, expectedARNs},
		{"PassableRoleArns", "Task roles and execution roles that tasks may use (ARNs)", none, arns, expectedARNs},
		{"NodeRoleArns", "Roles of the instances of node groups (ARNs)", none, arns, expectedARNs},
	}
}

// run asks the questions and writes the file. If the input ends before the last answer, it writes
// nothing.
func run(file string, in io.Reader, out io.Writer) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err // nil if it is there
	}
	lines := bufio.NewScanner(in)
	var answers []string
	for _, q := range questions() {
		answer, err := q.ask(lines, out, answers)
		if err != nil {
			return err
		}
		answers = append(answers, answer)
	}
	if err := os.WriteFile(file, []byte(configuration(answers)), 0o600); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "The answers are in %s. Delete it to be asked again.\n", file)
	return err
}

// ask asks until the answer is valid.
func (q *question) ask(lines *bufio.Scanner, out io.Writer, answers []string) (string, error) {
	fallback := q.fallback(answers)
	for {
		fmt.Fprintf(out, "%s [%s]: ", q.text, fallback)
		if !lines.Scan() {
			return "", cmp.Or(lines.Err(), fmt.Errorf("the input ended at the question %q", q.text))
		}
		answer := cmp.Or(strings.ReplaceAll(strings.TrimSpace(lines.Text()), ", ", ","), fallback)
		if q.valid.MatchString(answer) {
			return answer, nil
		}
		fmt.Fprintf(out, "%q is not valid, expected %s.\n", answer, q.expected)
	}
}

// configuration returns the sam CLI's configuration file for the answers.
func configuration(answers []string) string {
	var overrides []string
	for n, q := range questions() {
		if q.parameter != "" && answers[n] != "" {
			overrides = append(overrides, q.parameter+"="+strconv.Quote(answers[n]))
		}
	}
	// sam build needs the parameters, too: one of them is the processor architecture.
	given := ""
	if len(overrides) > 0 {
		given = fmt.Sprintf("parameter_overrides = %q\n", strings.Join(overrides, " "))
	}
	return fmt.Sprintf(`version = 0.1

[default.global.parameters]
stack_name = %q
region = %q
%s
[default.deploy.parameters]
capabilities = "CAPABILITY_IAM CAPABILITY_AUTO_EXPAND"
confirm_changeset = true
resolve_s3 = true
`, answers[stackAnswer], answers[regionAnswer], given)
}
