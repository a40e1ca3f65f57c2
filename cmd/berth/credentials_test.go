//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
)

const accessKeys = `{"credentials": [
	{"accessKeyId": "AKIAWRITER", "secretAccessKey": "w", "principal": "arn:aws:iam::123456789012:user/writer",
		"rights": ["write"]},
	{"accessKeyId": "AKIAREADER", "secretAccessKey": "r", "principal": "arn:aws:iam::123456789012:user/reader"}]}`

// startWithCredentials starts berth up with the access keys of a writer and a reader, which the file
// has.
func startWithCredentials(t *testing.T, flags ...string) (c *child, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, []byte(accessKeys), 0o644); err != nil { //nolint:gosec // it warns of that
		t.Fatal(err)
	}
	args := []string{"up", "--nodes", "1", "--listen", "127.0.0.1:0", "--credentials", file}
	return startChild(t, "berth", append(args, flags...)...), file
}

// signWith makes commands of this process sign with an access key.
func signWith(t *testing.T, key, secret string) {
	t.Setenv("AWS_ACCESS_KEY_ID", key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("AWS_SESSION_TOKEN", "")
	t.Setenv("AWS_REGION", "us-east-1")
}

// A backup of a Berth that checks signatures is made with the key of a writer, and refused with that
// of a reader.
func TestBackupWithCredentials(t *testing.T) {
	folder := t.TempDir()
	c, _ := startWithCredentials(t, "--data", filepath.Join(folder, "data"))
	endpoint := c.waitForEndpoint()
	backup := filepath.Join(folder, "backup.tar")
	signWith(t, "AKIAREADER", "r")
	if code, _, errs := berth("backup", backup, "--endpoint", endpoint); code != 1 ||
		!strings.Contains(errs, "AccessDeniedException") {
		t.Errorf("the reader's backup ends with %d, %q", code, errs)
	}
	signWith(t, "AKIAWRITER", "w")
	if code, _, errs := berth("backup", backup, "--endpoint", endpoint); code != 0 || errs != "" {
		t.Fatalf("the writer's backup ends with %d, %q", code, errs)
	}
	restored := filepath.Join(folder, "restored")
	if code, _, errs := berth("restore", backup, "--data", restored); code != 0 {
		t.Errorf("restore ends with %d, %q", code, errs)
	}
}

// Who breaks the simulated AWS, or may not, gets a line as who changes anything else.
func TestChaosIsLogged(t *testing.T) {
	c, _ := startWithCredentials(t, "--ephemeral")
	endpoint := c.waitForEndpoint()
	for _, as := range []struct {
		key, secret, kind string
		code              int
	}{{"AKIAREADER", "r", "--list", 0}, {"AKIAREADER", "r", "kill", 1}, {"AKIAWRITER", "w", "kill", 0}} {
		signWith(t, as.key, as.secret)
		if code, _, errs := berth("chaos", as.kind, "--endpoint", endpoint); code != as.code {
			t.Errorf("chaos %s of %s: exit code %d, %s", as.kind, as.key, code, errs)
		}
	}
	c.interrupt()
	_, stderr := c.outputSoFar()
	for want, times := range map[string]int{
		`"refused through the API" operation=BreakFleet principal=arn:aws:iam::123456789012:user/reader` + "\n": 1,
		`"changed through the API" operation=BreakFleet ` +
			"principal=arn:aws:iam::123456789012:user/writer subject=instances/": 1,
		"Fleet": 2,
	} {
		if got := strings.Count(stderr, want); got != times {
			t.Errorf("standard error has %q %d times, want %d: %s", want, got, times, stderr)
		}
	}
}

// With --credentials only signed requests are answered, each with the rights of its key, and
// standard error says who changed what.
func TestUpWithCredentials(t *testing.T) {
	c, file := startWithCredentials(t, "--ephemeral")
	endpoint := c.waitForEndpoint()
	create := func(key, secret string) error {
		client := ecsClient(endpoint)
		_, err := client.CreateCluster(stepContext(t), &ecs.CreateClusterInput{ClusterName: aws.String("shop")},
			func(o *ecs.Options) {
				o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
					return aws.Credentials{AccessKeyID: key, SecretAccessKey: secret}, nil
				})
			})
		return err
	}
	for _, refused := range []struct{ key, secret, code string }{
		{"AKIAREADER", "r", "AccessDeniedException"},
		{"AKIAWRITER", "guess", "InvalidSignatureException"},
		{"AKIAOTHER", "w", "UnrecognizedClientException"},
	} {
		if err := create(refused.key, refused.secret); err == nil || !strings.Contains(err.Error(), refused.code) {
			t.Errorf("CreateCluster with %s: %v, want %s", refused.key, err, refused.code)
		}
	}
	if _, answer := postRequest(t, endpoint, "ListClusters", `{}`); !strings.Contains(answer,
		"MissingAuthenticationTokenException") {
		t.Errorf("unsigned: %s, want a MissingAuthenticationTokenException", answer)
	}
	if err := create("AKIAWRITER", "w"); err != nil {
		t.Errorf("CreateCluster with the writer's key: %v", err)
	}
	c.interrupt()
	_, stderr := c.outputSoFar()
	for _, want := range []string{"chmod 600 " + file,
		`"refused through the API" operation=CreateCluster principal=arn:aws:iam::123456789012:user/reader` + "\n",
		`"changed through the API" operation=CreateCluster ` +
			"principal=arn:aws:iam::123456789012:user/writer subject=shop\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("standard error is %s, want %q in it", stderr, want)
		}
	}
}
