package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"berth"
)

const (
	deployer = "arn:aws:iam::123456789012:role/deployer"
	ci       = "arn:aws:iam::123456789012:user/ci"
)

// asked runs the command with the lines as input.
func asked(t *testing.T, file string, lines ...string) (said string, err error) {
	t.Helper()
	var out bytes.Buffer
	err = run(file, strings.NewReader(strings.Join(lines, "\n")+"\n"), &out)
	return out.String(), err
}

// A new installation takes six answers at most. They are in the file in the form that the sam CLI
// itself writes.
func TestAnswers(t *testing.T) {
	if n := len(questions()); n > 6 {
		t.Errorf("%d questions, want 6 at most", n)
	}
	t.Setenv("AWS_REGION", "eu-central-1")
	for _, c := range []struct {
		name, want string
		lines      []string
	}{
		{"Defaults", `stack_name = "berth"
region = "eu-central-1"

[default.deploy.parameters]
capabilities = "CAPABILITY_IAM CAPABILITY_AUTO_EXPAND"
confirm_changeset = true
resolve_s3 = true
`, []string{"", "", "", "", "", ""}},
		{"Own", `stack_name = "prod"
region = "us-west-2"
parameter_overrides = "WriterArns=\"` + deployer + "," + ci + `\" NodeGroupManagerArns=\"` + deployer + "," + ci +
			`\" NodeRoleArns=\"` + deployer + `\""

[default.deploy.parameters]
capabilities = "CAPABILITY_IAM CAPABILITY_AUTO_EXPAND"
confirm_changeset = true
resolve_s3 = true
`, []string{"prod", "us-west-2", deployer + ", " + ci, "", "", deployer}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "answers.toml")
			if said, err := asked(t, file, c.lines...); err != nil || !strings.Contains(said, file) {
				t.Fatalf("%v: %s", err, said)
			}
			text, err := os.ReadFile(file)
			if want := "version = 0.1\n\n[default.global.parameters]\n" + c.want; err != nil || string(text) != want {
				t.Errorf("the file is\n%s\nwant\n%s", text, want)
			}
		})
	}
}

// What cannot be right is asked again, and says what is expected.
func TestWrongAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers.toml")
	said, err := asked(t, file, "1berth", strings.Repeat("b", 53), "berth-2", "mars", "eu-west-1", "deployer",
		"arn:aws:s3:::bucket", deployer, "", "", "")
	if err != nil || strings.Count(said, "is not valid, expected") != 5 ||
		!strings.Contains(said, `"mars" is not valid`) {
		t.Errorf("%v: %s", err, said)
	}
}

// An end of the input leaves no file, so the next run asks again. A file is never replaced.
func TestUnfinishedAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers.toml")
	if said, err := asked(t, file, "berth", "eu-west-1"); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("%v: %s", err, said)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it wrote a file")
	}
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := asked(t, file); err != nil || said != "" {
		t.Errorf("it asks although there are answers: %v, %s", err, said)
	}
	if text, _ := os.ReadFile(file); string(text) != "kept" {
		t.Errorf("the file is now %s", text)
	}
}

// Each parameter that is asked for exists, and each of the template is in one group of the
// console's form.
func TestParametersAreGrouped(t *testing.T) {
	var template struct {
		Parameters map[string]any `yaml:"Parameters"`
		Metadata   map[string]struct {
			Groups []struct {
				Label      map[string]string `yaml:"Label"`
				Parameters []string          `yaml:"Parameters"`
			} `yaml:"ParameterGroups"`
		} `yaml:"Metadata"`
	}
	if err := yaml.Unmarshal([]byte(berth.Template), &template); err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for n, g := range template.Metadata["AWS::CloudFormation::Interface"].Groups {
		if g.Label["default"] == "" {
			t.Errorf("group %d has no label", n)
		}
		for _, p := range g.Parameters {
			if times[p]++; template.Parameters[p] == nil {
				t.Errorf("group %q has the parameter %s, which does not exist", g.Label["default"], p)
			}
		}
	}
	for p := range template.Parameters {
		if times[p] != 1 {
			t.Errorf("parameter %s is in %d groups, want 1", p, times[p])
		}
	}
	for _, q := range questions() {
		if q.parameter != "" && template.Parameters[q.parameter] == nil {
			t.Errorf("the question %q is about the parameter %s, which does not exist", q.text, q.parameter)
		}
	}
}
