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

// With --credentials only signed requests are answered, each with the rights of its key, and
// standard error says who changed what.
func TestUpWithCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, []byte(accessKeys), 0o644); err != nil { //nolint:gosec // it warns of that
		t.Fatal(err)
	}
	c := startChild(t, "berth", "up", "--ephemeral", "--nodes", "1", "--listen", "127.0.0.1:0", "--credentials", file)
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
