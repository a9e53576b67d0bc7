// SPDX-License-Identifier: GPL-2.0
// exceptions SECONDS: throws exceptions through some frames with destructors, and sorts strings.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Guard {
	std::string text;

	explicit Guard(int depth) : text(static_cast<size_t>(40 + depth), 'x') {}
	~Guard() { text.clear(); }
};

[[gnu::noinline]] int descend(int depth)
{
	Guard guard(depth);

	if (!depth)
		throw std::runtime_error("the end");
	return descend(depth - 1) + static_cast<int>(guard.text.size());
}

[[gnu::noinline]] int throws()
{
	try {
		return descend(8);
	} catch (const std::exception &error) {
		return error.what()[0];
	}
}

[[gnu::noinline]] size_t sorts()
{
	std::vector<std::string> words;
	std::map<std::string, int> counts;

	for (int i = 0; i < 300; i++)
		words.push_back("word " + std::to_string(i * 7919 % 1000));
	std::sort(words.begin(), words.end(),
		  [](const auto &left, const auto &right) { return left > right; });
	for (const auto &word : words)
		counts[word]++;
	return counts.size();
}

} // namespace

int main(int argc, char **argv)
{
	const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
	size_t sum = 0;

	while (static_cast<double>(std::clock()) / CLOCKS_PER_SEC < seconds)
		sum += static_cast<size_t>(throws()) + sorts();
	return sum == 0;
}
