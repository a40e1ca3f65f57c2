package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// LaunchTemplate returns a version of a launch template, $Default if the reference names none, from
// Amazon EC2 itself. The endpoint is found as for groups, with AWS_ENDPOINT_URL_EC2.
//
// The request is written here, because the SDK's package for EC2 takes longer to compile than all
// the rest of this program.
func (c *Client) LaunchTemplate(ctx context.Context, ref cluster.TemplateRef) (*cluster.LaunchTemplate, error) {
	const operation = "DescribeLaunchTemplateVersions"
	form := url.Values{"Action": {operation}, "Version": {"2016-11-15"},
		"LaunchTemplateVersion.1": {cmp.Or(ref.Version, "$Default")}}
	if form.Set("LaunchTemplateId", ref.ID); ref.ID == "" { // EC2 refuses both
		form.Del("LaunchTemplateId")
		form.Set("LaunchTemplateName", ref.Name)
	}
	var out struct {
		Versions []struct {
			ID     string `xml:"launchTemplateId"`
			Name   string `xml:"launchTemplateName"`
			Number int64  `xml:"versionNumber"`
			Image  string `xml:"launchTemplateData>imageId"`
		} `xml:"launchTemplateVersionSet>item"`
	}
	err := callEC2(ctx, c.target.ConfigFor("AWS_ENDPOINT_URL_EC2"), form, &out)
	if err == nil && len(out.Versions) == 0 {
		err = cluster.Errorf("InvalidLaunchTemplateId.VersionNotFound", "Launch template %s%s has no version %s",
			ref.ID, ref.Name, ref.Version)
	}
	if err != nil {
		return nil, c.awsError(operation, awsapi.CallError(err))
	}
	v := out.Versions[0]
	return &cluster.LaunchTemplate{ID: v.ID, Name: v.Name, Version: v.Number, Image: v.Image}, nil
}

// maxEC2Answer is larger than any version of a launch template.
const maxEC2Answer = 1 << 20

// callEC2 sends a form, and decodes the answer into out. An error of EC2 is a smithy.APIError.
func callEC2(ctx context.Context, conf aws.Config, form url.Values, out any) error {
	body := []byte(form.Encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, ec2Endpoint(conf), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	keys, err := conf.Credentials.Retrieve(ctx)
	if err != nil {
		return credentialsError(err)
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, r, hex.EncodeToString(sum[:]), "ec2", conf.Region,
		time.Now()); err != nil {
		return fmt.Errorf("signing the request: %w", err)
	}
	resp, err := awsapi.HTTP{Client: conf.HTTPClient}.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxEC2Answer))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		return xml.Unmarshal(answer, out)
	}
	var e struct {
		Code    string `xml:"Errors>Error>Code"`
		Message string `xml:"Errors>Error>Message"`
	}
	if xml.Unmarshal(answer, &e) != nil || e.Code == "" {
		return fmt.Errorf("EC2 answers with status %d", resp.StatusCode)
	}
	return &smithy.GenericAPIError{Code: e.Code, Message: e.Message}
}

// ec2Endpoint returns where EC2 is: at the endpoint of the configuration, or at AWS's of the
// Region.
func ec2Endpoint(conf aws.Config) string {
	if base := cmp.Or(aws.ToString(conf.BaseEndpoint), os.Getenv("AWS_ENDPOINT_URL_EC2")); base != "" {
		return strings.TrimSuffix(base, "/") + "/"
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(conf.Region, "cn-") {
		domain += ".cn"
	}
	return "https://ec2." + conf.Region + "." + domain + "/"
}
