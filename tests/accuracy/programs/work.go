// SPDX-License-Identifier: GPL-2.0

// work SECONDS: hashes, encrypts, encodes and sorts in goroutines: Go code, and Go's assembly.
package main

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"
)

func hash(block []byte) byte {
	sum := sha256.Sum256(block)
	return sum[0]
}

func encrypt(block []byte) byte {
	key, err := aes.NewCipher(block[:16])
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCM(key)
	if err != nil {
		panic(err)
	}
	return gcm.Seal(nil, block[:12], block, nil)[0]
}

func encode(block []byte) int {
	text, err := json.Marshal(map[string]interface{}{"bytes": block, "size": len(block)})
	if err != nil {
		panic(err)
	}
	var out bytes.Buffer
	writer, _ := flate.NewWriter(&out, 6)
	writer.Write(text)
	writer.Close()
	return out.Len()
}

func order(block []byte) string {
	words := make([]string, 0, 200)
	for i := 0; i < 200; i++ {
		words = append(words, strconv.Itoa(i*7919%1000+int(block[i%len(block)])))
	}
	sort.Strings(words)
	return words[0]
}

func multiply(block []byte) int {
	number := new(big.Int).SetBytes(block)
	return number.Mul(number, number).BitLen()
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	var group sync.WaitGroup
	for i := 0; i < 2; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			block := bytes.Repeat([]byte{1, 2, 3, 4}, 512)
			for time.Now().Before(end) {
				block[0] += hash(block) + encrypt(block) + byte(encode(block)) + order(block)[0] + byte(multiply(block))
				block[0] += foreign(int(block[0]))
			}
		}()
	}
	group.Wait()
}
