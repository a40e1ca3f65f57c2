//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// The console of a running Berth drains an instance, and one that asks Berth from another process
// returns it to service. A form without the page's token changes nothing.
func TestConsoleChanges(t *testing.T) {
	endpoint := startChild(t, "berth", "up", "--ephemeral", "--nodes", "2", "--listen", "127.0.0.1:0").waitForEndpoint()
	api := ecsClient(endpoint)
	listed, err := api.ListContainerInstances(stepContext(t), &ecs.ListContainerInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	arn := listed.ContainerInstanceArns[0]
	id := arn[strings.LastIndexByte(arn, '/')+1:]
	status := func() types.ContainerInstanceStatus {
		out, err := api.ListContainerInstances(stepContext(t), &ecs.ListContainerInstancesInput{
			Status: types.ContainerInstanceStatusDraining})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.ContainerInstanceArns) == 1 && out.ContainerInstanceArns[0] == arn {
			return types.ContainerInstanceStatusDraining
		}
		return types.ContainerInstanceStatusActive
	}
	await := func(want types.ContainerInstanceStatus) {
		t.Helper()
		pause := time.NewTicker(20 * time.Millisecond)
		defer pause.Stop()
		for ctx := stepContext(t); status() != want && ctx.Err() == nil; <-pause.C {
		}
		if got := status(); got != want {
			t.Fatalf("the instance is %s, want %s", got, want)
		}
	}
	drain := endpoint + "/console/change/drain?of=" + id
	if got := sendForm(t, http.DefaultClient, drain, "guess"); got != http.StatusForbidden {
		t.Errorf("a form with another token: %d", got)
	}
	_, page := openPage(t, http.DefaultClient, drain)
	await(types.ContainerInstanceStatusActive)
	if got := sendForm(t, http.DefaultClient, drain, tokenOf(t, page)); got != http.StatusOK {
		t.Errorf("the form: %d", got)
	}
	await(types.ContainerInstanceStatusDraining)

	address, _, _ := strings.Cut(startChild(t, "berth", "console", "--endpoint", endpoint, "--every",
		"100ms").waitForEndpoint(), " ")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	one := &http.Client{Jar: jar}
	openPage(t, one, address) // takes the token
	base, _, _ := strings.Cut(address, "?")
	_, page = openPage(t, one, base+"console/change/activate?of="+id)
	if got := sendForm(t, one, base+"console/change/activate?of="+id, tokenOf(t, page)); got != http.StatusOK {
		t.Errorf("the form: %d", got)
	}
	await(types.ContainerInstanceStatusActive)
}

// With --credentials, the console of berth up has no key: it only reads. `berth console` may do
// what the user's key may.
func TestConsoleRights(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, []byte(accessKeys), 0o600); err != nil {
		t.Fatal(err)
	}
	up := startChild(t, "berth", "up", "--ephemeral", "--nodes", "1", "--listen", "127.0.0.1:0", "--credentials", file)
	endpoint := up.waitForEndpoint()
	t.Setenv("AWS_REGION", "us-east-1")
	addresses := map[string]string{"up": ""}
	for key, secret := range map[string]string{"AKIAREADER": "r", "AKIAWRITER": "w"} {
		t.Setenv("AWS_ACCESS_KEY_ID", key)
		t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
		addresses[key], _, _ = strings.Cut(startChild(t, "berth", "console", "--endpoint", endpoint).waitForEndpoint(),
			" ")
	}
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for ctx := stepContext(t); addresses["up"] == "" && ctx.Err() == nil; <-pause.C {
		lines, _ := up.outputSoFar()
		_, addresses["up"], _ = strings.Cut(lines[len(lines)-1], "The console is at ")
	}
	for name, only := range map[string]bool{"up": true, "AKIAREADER": true, "AKIAWRITER": false} {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		code, page := openPage(t, &http.Client{Jar: jar}, addresses[name])
		if code != http.StatusOK || strings.Contains(page, "This console only reads.") != only {
			t.Errorf("%s: %d, only reads should be %v\n%s", name, code, only, page)
		}
	}
}

// berth up prints what to export, so that the AWS CLI reaches it.
func TestUpPrintsExports(t *testing.T) {
	up := startChild(t, "berth", "up", "--ephemeral", "--nodes", "0", "--listen", "127.0.0.1:0", "--region",
		"eu-west-1")
	endpoint := up.waitForEndpoint()
	want := []string{"export AWS_ENDPOINT_URL_ECS=" + endpoint, "export AWS_ENDPOINT_URL_EKS=" + endpoint,
		"export AWS_ENDPOINT_URL=" + endpoint, // Auto Scaling and others, which the console's commands call
		"export AWS_REGION=eu-west-1", "export AWS_ACCESS_KEY_ID=any", "export AWS_SECRET_ACCESS_KEY=any"}
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	text := ""
	for ctx := stepContext(t); !strings.Contains(text, "The console is at ") && ctx.Err() == nil; <-pause.C {
		lines, _ := up.outputSoFar()
		text = strings.Join(lines, "\n")
	}
	for _, line := range want {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
}

func tokenOf(t *testing.T, page string) string {
	t.Helper()
	m := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no token in\n%s", page)
	}
	return m[1]
}

// sendForm sends the form of a question, follows where it leads, and returns the last status.
func sendForm(t *testing.T, by *http.Client, address, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(stepContext(t), http.MethodPost, address,
		strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := by.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
