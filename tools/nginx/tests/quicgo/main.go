// Fetches files over HTTP/3 with quic-go, one after the other on one connection, and prints the status and the
// SHA-256 of each. The server's certificate is not checked.
package main

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/quic-go/quic-go/http3"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: quicgo https://HOST:PORT/FILE...")
		os.Exit(2)
	}
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	for _, url := range os.Args[1:] {
		if err := fetch(client, url); err != nil {
			fmt.Fprintf(os.Stderr, "quicgo: %s: %v\n", url, err)
			os.Exit(1)
		}
	}
	if err := transport.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "quicgo: %v\n", err)
		os.Exit(1)
	}
}

func fetch(client *http.Client, url string) error {
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, answer.Body); err != nil {
		return err
	}
	fmt.Printf("%s %d %x\n", answer.Proto, answer.StatusCode, digest.Sum(nil))
	return nil
}
