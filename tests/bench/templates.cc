// SPDX-License-Identifier: GPL-2.0
// templates N: work in which much of the C++ library is inlined, for comparisons of naming.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

static std::string text_of(unsigned int seed)
{
	std::ostringstream stream;

	for (unsigned int i = 0; i < 40; i++)
		stream << "key" << (seed * 7919u + i * i) % 97 << '=' << i * seed << ';';
	return stream.str();
}

static std::size_t count_words(const std::string &text)
{
	static const std::regex pair("(key[0-9]+)=([0-9]+);");
	std::unordered_map<std::string, std::vector<long>> found;
	std::map<long, std::shared_ptr<std::string>> sorted;
	std::vector<long> sums;

	for (std::sregex_iterator it(text.begin(), text.end(), pair), end; it != end; ++it)
		found[(*it)[1]].push_back(std::stol((*it)[2]));
	for (const auto &[key, values] : found) {
		long sum = std::accumulate(values.begin(), values.end(), 0L);

		sorted[sum] = std::make_shared<std::string>(key);
		sums.push_back(sum);
	}
	std::sort(sums.begin(), sums.end(), [](long a, long b) { return a % 17 < b % 17; });
	return sorted.size() + sums.front();
}

int main(int argc, char **argv)
{
	unsigned int count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
	std::size_t sum = 0;

	for (unsigned int i = 0; i < count; i++)
		sum += count_words(text_of(i));
	return sum == 1;
}
