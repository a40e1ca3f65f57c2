//go:build unix

package e2e

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A story is a document whose commands run one after the other, as a reader would run them, with
// the real AWS CLI against a `berth up` of their own.
type story struct {
	path string
	// flags are those of `berth up`; FOLDER is a new data folder.
	flags string
	// files stand in the folder in which the commands run.
	files map[string]string
	// before are commands that make what the document takes for granted.
	before []string
	// instead is what runs for commands that would fail, never end, or take long as they are printed.
	instead map[string]string
	// alone is a document that itself makes and exports all that its commands need.
	alone bool
	// settle waits after each wait for a stable service until its deployment is complete, as long as
	// it takes a reader to go on.
	settle bool
	// checks are what the last command of each kind must print.
	checks map[string]func(t *testing.T, out string)
}

// makeWeb starts two tasks of a service web.
var makeWeb = []string{
	"aws ecs register-task-definition --family web --container-definitions " +
		`'[{"name": "web", "image": "nginx", "cpu": 256, "memory": 512}]'`,
	"aws ecs create-service --service-name web --task-definition web --desired-count 2",
	"aws ecs wait services-stable --services web",
}

// trainDefinition registers a task definition train.
const trainDefinition = "aws ecs register-task-definition --family train --container-definitions " +
	`'[{"name": "train", "image": "train", "cpu": 256, "memory": 512}]'`

// A cluster of two nodes, and three tasks for it, as in docs/replay.md.
var recorded = map[string]string{
	"nodes.csv": "sn,cpu_milli,memory_mib,gpu\na,8000,8000,4\nb,8000,8000,4\n",
	"tasks.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n" +
		"t1,1000,100,1,500,0,7200\nt2,2000,100,1,1000,600,7200\nt3,2000,100,2,1000,1200,7200\n",
}

// Commands that do not run as they are printed.
const (
	overfull = "berth whatif --task-definition web --metric connections=90 --moves"
	reassign = "berth rebalance --instance model_a1_1.txt --assignment assignment_a1_1.txt --seconds 60 --out new.txt"
)

// says returns a check for texts in what a command prints.
func says(texts ...string) func(*testing.T, string) {
	return func(t *testing.T, out string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(out, text) {
				t.Errorf("%q is missing in %q", text, out)
			}
		}
	}
}

var stories = []story{
	{path: "README.md", flags: "--ephemeral", checks: map[string]func(*testing.T, string){
		"berth whatif": says("512 CPU units, 1024 MiB would go to"),
	}},
	{path: "docs/capacity.md", flags: "--ephemeral --speed 10", checks: map[string]func(*testing.T, string){
		"aws ecs wait services-stable": func(t *testing.T, out string) {
			if out != "" {
				t.Errorf("got %q", out)
			}
		},
		"aws autoscaling describe-auto-scaling-groups": func(t *testing.T, out string) {
			var got []any
			readJSON(t, out, &got)
			if len(got) != 2 || got[0] != 2.0 || len(got[1].([]any)) != 2 { // eight of the tasks fit on an m5.large
				t.Fatalf("got %v", got)
			}
			for _, i := range got[1].([]any) {
				if i := i.([]any); i[1] != "InService" || i[2] != true {
					t.Errorf("instance %v", i)
				}
			}
		},
		"berth explain instance":       says("spot"),
		"berth consolidate spot --off": says("spot"),
	}},
	{path: "docs/cloud.md", flags: "--ephemeral", before: makeWeb, checks: map[string]func(*testing.T, string){
		"berth chaos kill":     says("is terminated."),
		"berth chaos exit":     says("exits with code 1."),
		"berth chaos zone-out": says("Every machine of the cluster in us-east-1a is terminated"),
		"berth chaos --list":   says("INSTANCE", "us-east-1b"),
	}},
	{
		path: "docs/joining.md", flags: "--ephemeral",
		files: map[string]string{"join.sh": "#!/bin/bash\necho ECS_CLUSTER=prod >> /etc/ecs/ecs.config\n"},
		checks: map[string]func(*testing.T, string){
			"aws ssm get-parameter": says("ami-"),
			"aws iam create-role":   says(`"RoleName": "node"`),
		},
	},
	{
		path: "docs/nodegroups.md", flags: "--ephemeral --speed 20", alone: true,
		checks: map[string]func(*testing.T, string){
			"aws eks create-nodegroup":          says(`"CREATING"`),
			"aws eks update-nodegroup-version":  says(`"VersionUpdate"`),
			"aws eks update-nodegroup-config":   says(`"ConfigUpdate"`),
			"aws eks delete-nodegroup":          says(`"DELETING"`),
			"aws eks wait nodegroup-deleted":    says(),
			"aws ecs create-service --service-": says(`"berth:tolerations"`),
		},
	},
	{
		path: "docs/packing.md", flags: "--ephemeral", before: []string{trainDefinition}, files: recorded,
		checks: map[string]func(*testing.T, string){"berth pack --nodes": says(`"allocAt130"`)},
	},
	{
		path: "docs/placement.md", flags: "--ephemeral", before: []string{
			// The first instance has no CPU left; the others have a load of 30 of 100 connections each.
			"aws ecs register-task-definition --family full --container-definitions " +
				`'[{"name": "full", "image": "full", "cpu": 2048, "memory": 1024}]'`,
			"aws ecs start-task --task-definition full --container-instances 58239f054d80537251f5c7e52a6bb953",
			"for i in $(aws ecs list-container-instances --query containerInstanceArns --output text); do " +
				"aws ecs put-attributes --attributes name=berth.node-type,value=small,targetId=$i; done",
			`curl -sf --aws-sigv4 aws:amz:us-east-1:ecs --user any:any -H 'Content-Type: application/x-amz-json-1.1' ` +
				`-H 'X-Amz-Target: Berth_20261121.PutClusterConfiguration' -d '{"cluster": "default", ` +
				`"configuration": {"nodeTypes": {"small": {"capacities": {"connections": 100}}}}}' $AWS_ENDPOINT_URL`,
			makeWeb[0],
			"aws ecs create-service --service-name web --task-definition web --desired-count 5 " +
				"--tags key=berth:metrics,value=connections=30",
			"aws ecs wait services-stable --services web",
		},
		instead: map[string]string{overfull: overfull + " || [ $? -eq 3 ]"}, // it finds no instance
		checks: map[string]func(*testing.T, string){
			"berth whatif --service": says("2 tasks of service web would go to", "has the fewest tasks of the service",
				"58239f054d80537251f5c7e52a6bb953 cannot take it: insufficient CPU (needs 256 units, best free 0)"),
			overfull: says("A task of web:1 would find no instance.", "(connections: needs 90, best free 70)",
				"With these moves, 1 of 1 tasks would find an instance:", "(start first)"),
			"berth whatif --trace":  says("would go to openb-node-0356, GPU 0.", "1523 instances: 310 insufficient GPU"),
			"berth explain cluster": says("6 instances accept tasks.", "Metric connections: 150 of 600 used"),
			"curl":                  says(`{"failures":[]}`), // the last one, ReportLoad
		},
	},
	{
		path: "docs/rebalancing.md", flags: "--ephemeral", before: append(makeWeb[:3:3],
			"berth whatif --save prod.rows --cpu 1 --memory 1"),
		files: map[string]string{
			// Two processes on one machine that is best used up to 6; the other machine is empty.
			"model_a1_1.txt":      "1\n0 10\n2\n0 0 20 6 0 2\n0 0 20 6 2 0\n2\n0 0\n0 0\n2\n0 6 3\n1 6 4\n0\n1 10 7\n",
			"assignment_a1_1.txt": "0 0\n",
		},
		checks: map[string]func(*testing.T, string){
			"berth rebalance --dry-run": says(`"moves":`),
			"berth rebalance --apply":   says("No moves are worth it."),
			reassign:                    says("cost          27, before 60"),
		},
		instead: map[string]string{reassign: strings.Replace(reassign, "--seconds 60", "--seconds 2", 1)},
	},
	{path: "docs/replay.md", flags: "--ephemeral", files: recorded, checks: map[string]func(*testing.T, string){
		"berth replay --nodes": says(`"placed":3`),
	}},
	{
		path: "docs/security.md", flags: "--ephemeral", before: []string{
			"aws ec2 create-launch-template --launch-template-name workers --launch-template-data " +
				`'{"ImageId": "ami-1", "InstanceType": "m5.large"}'`,
			"aws autoscaling create-auto-scaling-group --auto-scaling-group-name GROUP --min-size 0 --max-size 1 " +
				"--availability-zones us-east-1a --launch-template LaunchTemplateName=workers,Version=1",
		},
		checks: map[string]func(*testing.T, string){"aws autoscaling create-or-update-tags": says()},
	},
	{path: "docs/running.md", flags: "--data FOLDER", before: makeWeb, checks: map[string]func(*testing.T, string){
		"berth status":  says("Nothing is wrong in cluster default"),
		"berth restore": says("restored"),
		"berth doctor":  says("ok"),
	}},
	{path: "docs/services.md", flags: "--ephemeral", settle: true, checks: map[string]func(*testing.T, string){
		"berth throttle web":                  says("web"),
		"aws ecs list-service-deployments":    says(`"serviceDeploymentArn"`),
		"berth rollback web":                  says("web"),
		"aws ecs update-service-primary-task": says(`"PRIMARY"`),
		"aws ecs delete-task-set":             says(`"DRAINING"`),
	}},
	{
		path: "docs/status.md", flags: "--ephemeral",
		instead: map[string]string{
			"berth status":          "berth status || [ $? -eq 3 ]", // something is wrong
			"berth events --follow": "berth events --follow & sleep 2; kill $!",
		},
		before: append(makeWeb[:3:3],
			"aws ecs create-service --service-name api --task-definition web --desired-count 2 "+
				"--placement-constraints 'type=memberOf,expression=attribute:ecs.instance-typ == m5.large'",
			"until berth status | grep -q typ; do sleep 1; done"),
		checks: map[string]func(*testing.T, string){
			"berth status": says("1 problem in cluster default",
				"1. Service api runs 0 of 2 tasks: no instance can take 2 more.",
				"constraint not met (attribute:ecs.instance-typ == m5.large).",
				`the nearest attribute is "ecs.instance-type".`, "Correct the constraint:",
				"aws ecs update-service --cluster default --service api --placement-constraints"),
			"berth service":                says("NAME", "RUNNING", "web", "2/2"),
			"berth task --service web":     says("INSTANCE", "HEALTH"),
			"berth instance --output wide": says("CPU", "MEMORY", "DOMAINS", "ATTRIBUTES"),
			"berth cluster":                says("default"),
			"berth events --follow":        says("(service web) has started 2 tasks"),
		},
	},
	{path: "docs/upgrades.md", flags: "--ephemeral", checks: map[string]func(*testing.T, string){
		"aws eks create-nodegroup": func(t *testing.T, out string) {
			var got struct{ Nodegroup struct{ Status string } }
			readJSON(t, out, &got)
			if got.Nodegroup.Status != "CREATING" {
				t.Errorf("got %+v", got)
			}
		},
		"berth upgrade workers": says("ami-2"),
		"aws eks update-nodegroup-config": func(t *testing.T, out string) {
			var got struct{ Update struct{ Status, Type string } }
			readJSON(t, out, &got)
			if got.Update.Status != "Successful" || got.Update.Type != "ConfigUpdate" {
				t.Errorf("got %+v", got)
			}
		},
		"aws eks describe-update": func(t *testing.T, out string) {
			var got struct {
				Update struct {
					Status, Type string
					Params       []struct{ Type, Value string }
				}
			}
			readJSON(t, out, &got)
			if u := got.Update; u.Status != "InProgress" || u.Type != "VersionUpdate" || len(u.Params) != 1 ||
				u.Params[0].Value != "ami-2" {
				t.Errorf("got %+v", got)
			}
		},
	}},
}

// Why a command of a document is in no story.
const (
	onAWS     = "it needs an installation on AWS; TestLocalCloud calls one on an emulator"
	runsTests = "it runs tests"
	longRun   = "the whole trace takes minutes; docs/replay.md has a short one too"
	released  = "it builds for all platforms; the tests of tools/dist build a release"
)

// untold are the commands of each document that no story runs, with the reason.
var untold = map[string]map[string]string{
	"README.md": {
		"make dist": released,
		"tar xzf dist/berth_*_linux_amd64.tar.gz berth":                   released,
		"podman load --input dist/berth_*_image.tar":                      released,
		"berth replay --compress 20000":                                   longRun,
		"berth proxy --stack berth -- aws ecs list-services":              onAWS,
		"berth proxy --stack berth --keep-credentials -- terraform apply": onAWS,
		"berth --stack berth explain service web":                         onAWS,
		"berth doctor --stack berth":                                      onAWS,
	},
	"docs/cloud.md": {
		"make local": "it downloads and starts an emulator of AWS; TestLocalCloud has one",
		"make invoke EVENT=events/task-stopped.json":             "TestEventFixtures handles this event",
		"berth proxy --stack berth":                              onAWS,
		"berth proxy --stack berth -- aws ecs list-services":     onAWS,
		"berth proxy --stack berth -- python3 deploy.py":         onAWS,
		"berth --stack berth --profile prod explain service web": onAWS,
		"berth proxy --stack berth --profile prod --region eu-west-1 --keep-credentials " +
			"-- terraform apply": onAWS,
		`curl --aws-sigv4 "aws:amz:$AWS_REGION:lambda" --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" ` +
			`"${API_URL}clusters/default/node-groups"`: onAWS,
	},
	"docs/doctor.md": {
		"berth doctor --stack berth":                     onAWS,
		"AWS_ENDPOINT_URL_ECS=$BERTH_FLEET berth doctor": onAWS,
		"berth doctor --data .berth":                     "no Berth may use the folder; TestDoctorOfADataFolder checks one",
	},
	"docs/joining.md": {
		"berth proxy --stack berth -- aws ecs create-cluster --cluster-name prod": onAWS,
		"berth doctor --stack berth":                  onAWS,
		"berth instance --stack berth --cluster prod": onAWS,
	},
	"docs/replay.md": {
		"berth replay": longRun, "berth replay --compress 20000": longRun,
		"berth replay --compress 20000 --scale both --days 14": longRun,
	},
	"docs/running.md": {
		"berth doctor --stack berth": onAWS,
	},
	"docs/simulation.md": {
		"make simulate SEEDS=1000": runsTests, "make simulate FROM=663 SEEDS=500": runsTests,
		"make simulate SEED=42": runsTests, "make soak HOURS=1": runsTests,
	},
	"docs/upgrades.md": {
		"berth upgrade workers --release-version ami-2": "by the real clock it takes minutes; " +
			"TestReadmeBreakIt runs it with time that passes faster",
	},
}

// ownTests are the sections of README.md with a test each.
var ownTests = []string{"## Try it", "## Break it"}

// storyCommands returns the commands of a document, without those of sections with an own test.
func storyCommands(t *testing.T, document string) []string {
	t.Helper()
	text := readDocument(t, document)
	if document == "README.md" {
		for _, heading := range ownTests {
			text = strings.Replace(text, sectionOf(t, document, heading), "", 1)
		}
	}
	return shellCommands(text)
}

// Every command of README.md and of docs is in a story, or in the list of those that are not.
func TestEveryCommandHasAStory(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d documents, %v", len(pages), err)
	}
	documents := []string{"README.md"}
	for _, page := range pages {
		documents = append(documents, path.Join("docs", filepath.Base(page)))
	}
	for _, document := range documents {
		told := slices.ContainsFunc(stories, func(s story) bool { return s.path == document })
		commands := storyCommands(t, document)
		for _, command := range commands {
			if !told && untold[document][command] == "" {
				t.Errorf("%s: no test runs %q: give the document a story, or list the command with the reason", document,
					command)
			}
		}
		for command, why := range untold[document] {
			if !slices.Contains(commands, command) {
				t.Errorf("%s has no command %q: take it off the list", document, command)
			}
			if why == longRun && !strings.Contains(sectionAround(t, document, command), "minutes") {
				t.Errorf("%s does not say how many minutes %q takes", document, command)
			}
		}
	}
	for document := range untold {
		if !slices.Contains(documents, document) {
			t.Errorf("there is no %s", document)
		}
	}
}

// sectionAround returns the section of a document in which a command stands.
func sectionAround(t *testing.T, document, command string) string {
	t.Helper()
	for section := range strings.SplitSeq(readDocument(t, document), "\n## ") {
		if slices.Contains(shellCommands(section), command) {
			return section
		}
	}
	t.Errorf("%s has no command %q", document, command)
	return ""
}

// TestDocs runs the story of each document.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip(leftToCheck + "capacity providers and node groups are looked at once a minute")
	}
	needsAWS(t)
	t.Parallel()
	bin := buildBerth(t)
	for _, s := range stories {
		t.Run(s.path, func(t *testing.T) {
			t.Parallel()
			s.run(t, bin)
		})
	}
}

// run runs the commands, then compares what they printed.
func (s story) run(t *testing.T, bin string) {
	shell := newShell(t, 5*time.Minute)
	shell.dir = t.TempDir()
	for name, text := range s.files {
		if err := os.WriteFile(filepath.Join(shell.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := strings.ReplaceAll(s.flags, "FOLDER", filepath.Join(t.TempDir(), "data"))
	endpoint := runBerth(t, bin, strings.Fields(flags)...)
	if !s.alone {
		shell.env = append(shell.env, "AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any",
			"AWS_DEFAULT_REGION=us-east-1")
	}
	shell.env = append(shell.env, "PATH="+filepath.Dir(bin)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, command := range s.before {
		shell.runCommand(command)
	}
	printed, commands := map[string]string{}, storyCommands(t, s.path)
	for _, command := range commands {
		if untold[s.path][command] != "" {
			continue
		}
		run := command
		if s.instead[command] != "" {
			run = s.instead[command]
		}
		out := shell.runCommand(strings.ReplaceAll(run, defaultEndpoint, endpoint))
		if s.settle && strings.HasPrefix(command, "aws ecs wait services-stable") {
			shell.runCommand("until " + strings.Replace(command, "wait services-stable", "describe-services", 1) +
				" --query 'services[].deployments[].rolloutState' --output text | grep -qx COMPLETED; do sleep 1; done")
		}
		for of := range s.checks {
			if strings.HasPrefix(command, of) {
				printed[of] = out
			}
		}
	}
	for command := range s.instead {
		if !slices.Contains(commands, command) {
			t.Errorf("%s no longer shows %q", s.path, command)
		}
	}
	for of, check := range s.checks {
		out, ran := printed[of]
		if !ran {
			t.Errorf("%s no longer shows %q", s.path, of)
			continue
		}
		check(t, out)
	}
}
