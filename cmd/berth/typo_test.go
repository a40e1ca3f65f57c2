//go:build unix

package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
)

// Every command names the nearest name that exists for one that does not.
func TestTypos(t *testing.T) {
	endpoint := startChild(t, "berth", "up", "--ephemeral", "--nodes", "2", "--zones", "1", "--listen",
		"127.0.0.1:0").waitForEndpoint()
	api := ecsClient(endpoint)
	registerDefinition(t, api, "web")
	for _, name := range []string{"web", "worker"} {
		if _, err := api.CreateService(stepContext(t), &ecs.CreateServiceInput{ServiceName: aws.String(name),
			TaskDefinition: aws.String("web"), DesiredCount: aws.Int32(1)}); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := api.ListContainerInstances(stepContext(t), &ecs.ListContainerInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	arn := listed.ContainerInstanceArns[0]
	id := arn[strings.LastIndexByte(arn, '/')+1:]
	wrong := id[:5] + "zz" + id[7:]
	described, err := api.DescribeContainerInstances(stepContext(t), &ecs.DescribeContainerInstancesInput{
		ContainerInstances: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	ec2 := *described.ContainerInstances[0].Ec2InstanceId
	const cluster = `id you mean "default"?`
	for line, want := range map[string]string{
		"status --cluster defualt":                 cluster,
		"events --cluster defualt":                 cluster,
		"explain service web --cluster defualt":    cluster,
		"explain cluster --cluster defualt":        cluster,
		"throttle web --cluster defualt":           cluster,
		"whatif --cpu 1 --cluster defualt":         cluster,
		"service --cluster defualt":                cluster,
		"cluster defualt":                          cluster,
		"rollback web --cluster defualt":           cluster,
		"upgrade workers --cluster defualt":        cluster,
		"consolidate spot --cluster defualt":       cluster,
		"rebalance --apply --cluster defualt":      cluster,
		"chaos kill --cluster defualt":             cluster,
		"chaos exit --service wbe":                 `service "wbe" is not in cluster "default"; did you mean "web"?`,
		"console --cluster defualt":                cluster,
		"events --service wbe":                     `id you mean "web"?`,
		"explain service wbe":                      `id you mean "web"?`,
		"throttle wroker":                          `service "wroker" is not in cluster "default"; did you mean "worker"?`,
		"rollback wbe":                             `id you mean "web"?`,
		"whatif --service wbe":                     `id you mean "web"?`,
		"task --service wbe":                       `id you mean "web"?`,
		"service wbe":                              `id you mean "web"?`,
		"task --instance " + wrong:                 `id you mean "` + id + `"?`,
		"explain instance " + wrong:                `id you mean "` + id + `"?`,
		"instance " + ec2[:len(ec2)-1] + "x":       `id you mean "` + ec2 + `"?`,
		"chaos kill " + wrong:                      `id you mean "` + id + `"?`,
		"chaos kil":                                `id you mean "kill"?`,
		"chaos zone-out us-east-1aa":               `id you mean "us-east-1a"?`,
		"whatif --cpu 1 --strategy binpak:memory":  `id you mean "binpack:memory"?`,
		"whatif --cpu 1 --domain-policy nonpaking": `id you mean "nonpacking"?`,
		"whatif --cpu 1 --scoring best-fitt":       `id you mean "best-fit"?`,
		"upgrade workers --strategy MINIML":        `id you mean "MINIMAL"?`,
		"pack --tasks gpuspec3":                    `id you mean "gpuspec33"?`,
		"up --type m5.lrage":                       `id you mean "m5.large"?`,
		"service --output josn":                    `id you mean "json"?`,
		"completion bsh":                           `id you mean "bash"?`,
		"help explain servce":                      `id you mean "service"?`,
		"staus":                                    `id you mean "status"?`,
	} {
		args := strings.Fields(line)
		switch args[0] {
		case "help", "staus", "completion", "pack", "up":
		default:
			args = append(args, "--endpoint", endpoint)
		}
		if code, _, errs := berth(args...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, want %s in: %s", line, code, want, errs)
		}
	}
	for path, want := range map[string]string{
		"console/servces": "services", "console/service/wbe": "web", "console/events?service=wbe": "web",
		"console/whatif?service=wbe": "web", "?cluster=defualt": "default",
	} {
		resp, err := http.Get(endpoint + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want = "did you mean &#34;" + want + "&#34;?"; err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%s: status %d without %s: %s", path, resp.StatusCode, want, page)
		}
	}
}

// `berth help COMMAND` is `berth COMMAND --help`.
func TestHelpCommand(t *testing.T) {
	for _, command := range [][]string{{}, {"status"}, {"explain", "service"}} {
		_, want, _ := berth(append(command, "--help")...)
		code, out, errs := berth(append([]string{"help"}, command...)...)
		if code != 0 || out != want || errs != "" || want == "" {
			t.Errorf("help of %q: exit code %d, %q%s", command, code, out, errs)
		}
	}
}
